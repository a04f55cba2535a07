"""Lines of a trace log become entries, and a broken line becomes a `Broken`."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ctrace.inspector.log.reader import Broken, Form, LogEntry, follow, read
from ctrace.inspector.session.build import build as session_from
from tests.support.helpers import Log, any_json, fuzzing, parsed

PREFIX = "V0102 03:04:05.000006 77 ctrace:0]"


def one(log: str | bytes) -> LogEntry | Broken:
    (item,) = parsed(log)
    return item


def small_log() -> Log:
    """Every form of a record: with and without payload, inside and outside of a compilation."""
    log = Log().started().compiled("0/0").breaks("0/0").record("describe_source", {"source": "L['é']"}, payload="")
    return log.artifact("note", "one\n\n\tthree \N{LINE SEPARATOR} é\n").ended()


def test_record_without_payload():
    entry = one(Log().record("dynamo_start", {"stack": []}, at="2/1", attempt=3).text)
    assert isinstance(entry, LogEntry)
    assert (entry.number, entry.kind, entry.data, entry.payload) == (1, "dynamo_start", {"stack": []}, "")
    assert (entry.compile_id, entry.attempt) == ("2/1", 3)


def test_outside_a_compilation_there_is_no_compile_id():
    entry = one(Log().record("str", ["a.py", 0]).text)
    assert isinstance(entry, LogEntry)
    assert (entry.compile_id, entry.attempt) == (None, 0)


def test_half_a_compile_id_is_none():
    entry = one(f'{PREFIX} {{"stack_of": {{}}, "frame_id": 3}}\n')
    assert isinstance(entry, LogEntry)
    assert entry.compile_id is None


def test_artifacts_are_named_by_their_own_name():
    entry = one(Log().artifact("recompile_reasons", "because").text)
    assert isinstance(entry, LogEntry)
    assert entry.kind == "artifact:recompile_reasons"


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "one line",
        "two\nlines",
        "\n",
        "ends in a newline\n",
        "empty\n\n\nlines",
        "\tindented\n\t\ttwice",
        "{}",
        "é日本",
    ],
)
def test_payload_comes_back_as_it_was_written(payload: str):
    entry = one(Log().artifact("note", payload).text)
    assert isinstance(entry, LogEntry)
    assert entry.payload == payload


@pytest.mark.parametrize("separator", ["\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"])
def test_only_a_newline_ends_a_line(separator: str):
    entry = one(Log().artifact("note", f"a{separator}b").text)
    assert isinstance(entry, LogEntry)
    assert entry.payload == f"a{separator}b"


def test_numbers_are_those_of_the_first_line():
    log = Log().artifact("a", "1\n2\n3").artifact("b", "1").record("c", {})
    assert [item.number for item in log.entries()] == [1, 5, 7]


def test_an_unfinished_last_line_still_counts():
    assert isinstance(one(Log().artifact("note", "text").text.rstrip("\n")), LogEntry)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Traceback (most recent call last):\n", "not a trace record"),
        ("\n", "not a trace record"),
        (f"{PREFIX} {{\n", "unreadable JSON"),
        (f'{PREFIX} {{"str": ["a.py", 0]\n', "unreadable JSON"),
        (f'{PREFIX} {{"str": ["a.py", 0]}} and more\n', "unreadable JSON"),
        (f'{PREFIX} {{"deep": {"[" * 100_000}\n', "unreadable JSON"),
        (f"{PREFIX} {{}}\n", "a record without an event"),
        (f'{PREFIX} {{"rank": 0, "frame_id": 0}}\n', "a record without an event"),
        ("\tpayload\n", "a payload without a record"),
        (
            f'{PREFIX} {{"artifact": {{"name": "a"}}, "has_payload": "0123"}}\n',
            "the payload of 'artifact:a' is cut short",
        ),
    ],
)
def test_broken_lines_are_told(line: str, why: str):
    broken = one(line)
    assert isinstance(broken, Broken)
    assert broken.number == 1
    assert why in broken.why


def test_a_changed_payload_with_a_whole_form_is_used():
    log = Log().artifact("note", "guards: 17").record("b", {}).text.replace("17", "71")
    entry, _ = parsed(log)
    assert isinstance(entry, LogEntry)
    assert (entry.payload, entry.changed) == ("guards: 71", Form.TEXT)


def test_a_damaged_payload_says_what_it_was_of():
    log = Log().record("chromium_event", {}, payload='{"ph": "B"}', at="2/1").record("b", {}).text.replace('"B"}', '"B')
    broken, _ = parsed(log)
    assert broken == Broken(1, "the payload of 'chromium_event' of 2/1 is cut short or damaged")


def test_a_record_before_lost_bytes_was_damaged():
    log = Log().artifact("note", "one\ntwo").line("half of it").record("b", {}).text.replace("\ttwo\n", "")
    assert [isinstance(item, Broken) for item in parsed(log)] == [True, True, False]


def test_reading_goes_on_after_a_broken_record():
    log = (
        Log().artifact("a", "1").line("a program printed this").artifact("b", "2").line(f"{PREFIX} {{").record("c", {})
    )
    found = [item.kind if isinstance(item, LogEntry) else item.number for item in log.entries()]
    assert found == ["artifact:a", 3, "artifact:b", 6, "c"]


def test_bytes_that_are_no_text_break_one_record_only(tmp_path: Path):
    first, second = Log().artifact("a", "café").text.encode(), Log().record("b", {}).text.encode()
    (tmp_path / "trace.log").write_bytes(first.replace("é".encode(), b"\xff") + second)
    broken, entry = read(tmp_path / "trace.log")
    assert isinstance(broken, Broken)
    assert isinstance(entry, LogEntry)


def test_a_header_with_bytes_that_are_no_text_is_read_and_doubted(tmp_path: Path):
    data = Log().record("describe_source", {"source": "name"}).text.encode().replace(b"name", b"n\xfcme")
    (tmp_path / "trace.log").write_bytes(data)
    (entry,) = read(tmp_path / "trace.log")
    assert isinstance(entry, LogEntry)
    assert (entry.data, entry.has_odd_bytes) == ({"source": "n\ufffdme"}, True)
    (problem,) = session_from([entry]).problems
    assert problem.is_doubt
    assert "bytes that are not text" in problem.what


def test_an_empty_log_has_no_entries():
    assert parsed("") == []


def test_read_gives_what_parse_gives(tmp_path: Path):
    log = small_log()
    (tmp_path / "trace.log").write_bytes(log.text.encode())
    assert list(read(tmp_path / "trace.log")) == log.entries()


def test_read_of_a_missing_file_is_an_os_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        list(read(tmp_path / "trace.log"))


def test_follow_waits_for_lines_that_are_still_being_written(tmp_path: Path):
    path, log = tmp_path / "trace.log", small_log()
    data = log.text.encode()
    half = data.index(b"ctrace_graph")  # in the middle of a line
    chunks = [data[:half], data[half : half + 7], data[half + 7 :]]
    path.touch()

    def ended() -> bool:
        if not chunks:
            return True
        with path.open("ab") as file:
            file.write(chunks.pop(0))
        return False

    assert list(follow(path, ended)) == log.entries()


def test_follow_keeps_the_last_line_of_a_writer_that_crashed(tmp_path: Path):
    path = tmp_path / "trace.log"
    path.write_text(Log().artifact("note", "text").text + f"{PREFIX} {{", encoding="utf-8")
    first, last = follow(path, lambda: True)
    assert isinstance(first, LogEntry)
    assert isinstance(last, Broken)


def test_a_log_cut_anywhere_loses_its_last_record_only():
    log = small_log()
    data, whole = log.text.encode(), log.entries()
    starts = {item.number for item in whole}
    for end in range(len(data)):
        items = parsed(data[:end])
        broken = [item for item in items if isinstance(item, Broken)]
        assert broken in ([], items[-1:]), f"cut at byte {end}"
        assert {item.number for item in broken} <= starts
        kept = [replace(item, is_last=False) for item in items[: len(items) - len(broken)]]
        assert kept == whole[: len(kept)], f"cut at byte {end}"


@fuzzing
@given(st.text())
def test_any_text_can_be_parsed(text: str):
    for item in parsed(text):
        assert item.number >= 1


@fuzzing
@given(st.binary())
def test_any_bytes_can_be_parsed(data: bytes):
    parsed(data)


@fuzzing
@given(
    st.lists(st.sampled_from([*small_log().text.splitlines(keepends=True), "\t\n", "\n", f"{PREFIX} {{}}\n", "] {"]))
)
def test_lines_in_any_order_can_be_parsed(lines: list[str]):
    parsed("".join(lines))


@fuzzing
@given(st.dictionaries(st.sampled_from(["artifact", "x", "frame_id", "frame_compile_id", "has_payload", ""]), any_json))
def test_any_json_object_can_be_parsed(record: dict[str, object]):
    item = one(f"{PREFIX} {json.dumps(record)}\n")
    if isinstance(item, LogEntry):
        assert item.compile_id is None or "/" in item.compile_id


@fuzzing
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_payload_comes_back(payload: str):
    entry = one(Log().artifact("note", payload).text)
    assert isinstance(entry, LogEntry)
    assert entry.payload == payload
