"""The index of a large log: used for the same log only, never trusted, never in the way."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.graph_facts import Graphs
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.stored import Stored
from ctrace.inspector.findings.compile_time_fold import all_metrics
from ctrace.inspector.log import reader
from ctrace.inspector.runs import load as loading
from ctrace.inspector.runs.load import load_log
from ctrace.inspector.session import session_cache
from ctrace.inspector.session.session_cache import SessionCache
from tests.support.helpers import Log
from tests.support.places import DATA
from tests.support.sampling import sampled

TORCH = DATA / "print_break.torch.log"
EVERY = sorted(DATA.glob("*.log"))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small logs count as large."""
    monkeypatch.setattr(loading, "_LARGE", 1)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "trace.log"
    path.write_bytes(TORCH.read_bytes())
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """List the logs that are read in full."""
    found: list[Path] = []
    whole = reader.read

    def read(path: Path, **options: object):
        found.append(path)
        return whole(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(loading, "read", read)
    return iter([found])


def folder_of(log: Path) -> Path:
    return log.parent / "ours" / ".logs"


def file_of(log: Path) -> Path:
    (found,) = folder_of(log).glob("*.index")
    return found


def with_texts(session: Session) -> object:
    """Return a session with the texts that stayed in its log."""
    printed = {
        name: [(one.stage, one.text, one.sizes, one.attempt) for one in each.printed] + [each.metadata, each.symbols]
        for name, each in session.printed.items()
    }
    guards = {name: each.text for name, each in session.guards.items()}
    code = [(each.graph, each.stage, each.text) for each in session.code]
    lookups = [replace(each, components=(), record=None) for each in session.compile_time.lookups]
    modules = [(each.graph, each.stage, each.text, each.stack_text) for each in session.torch_code]
    time = replace(session.compile_time, lookups=tuple(lookups))
    records = [(each.name, each.compilation, each.line, each.text) for each in session.records]
    rest = replace(session, printed={}, guards={}, code=(), compile_time=time, records=(), metrics=(), torch_code=())
    return rest, printed, guards, code, modules, records, all_metrics(session)


@pytest.mark.parametrize("path", sampled(EVERY), ids=lambda path: path.stem)
def test_a_large_log_says_the_same_as_a_small_one(path: Path, monkeypatch: pytest.MonkeyPatch):
    found = load_log(path)
    monkeypatch.setattr(loading, "_LARGE", 1 << 40)
    assert with_texts(found) == with_texts(load_log(path))


@pytest.mark.parametrize("path", sampled(EVERY), ids=lambda path: path.stem)
def test_an_index_has_the_whole_session(path: Path, tmp_path: Path):
    first = load_log(path, indexes=tmp_path / ".logs")
    index = SessionCache(tmp_path / ".logs", path)
    assert index.read() == first


def test_an_index_has_what_a_rank_communicated(tmp_path: Path):
    """Both kinds of calls, in one list: each has a tag."""
    called = {
        "op": "all_reduce", "group": "1", "group_size": 2, "bytes": 64, "dtype": "float32", "is_backward": False,
        "file": "train.py", "line": 3, "origin": "user",
    }  # fmt: skip
    made = Log().started().compiled("0/0").ctrace("rank_began", {"rank": 1, "world": 2})
    made.ctrace("collective_called", called).ctrace("graph_called", {"is_backward": False}, at="0/0")
    path = tmp_path / "rank.log"
    path.write_text(made.text)
    first = load_log(path, indexes=tmp_path / ".logs")
    assert first.cluster is not None
    assert [type(each).__name__ for each in first.cluster.calls] == ["CollectiveCalled", "GraphCalled"]
    assert SessionCache(tmp_path / ".logs", path).read() == first


def test_the_second_view_does_not_read_the_log(log: Path, reads: Iterator[list[Path]]):
    first, second = (load_log(log, indexes=folder_of(log)) for _ in range(2))
    assert next(reads) == [log]
    assert first == second


def test_ctraces_folder_is_ignored_by_git(log: Path):
    load_log(log, indexes=folder_of(log))
    assert (folder_of(log).parent / ".gitignore").read_text() == "*\n"


def test_nothing_is_written_beside_the_log(log: Path):
    load_log(log, indexes=folder_of(log))
    assert sorted(each.name for each in log.parent.iterdir()) == ["ours", "trace.log"]


def test_a_log_that_grew_is_read_again(log: Path, reads: Iterator[list[Path]]):
    load_log(log, indexes=folder_of(log))
    with log.open("ab") as file:
        file.write(TORCH.read_bytes())
    assert len(load_log(log, indexes=folder_of(log)).graphs) > len(load_log(TORCH).graphs)
    assert next(reads).count(log) == 2


def test_a_log_with_other_content_and_the_same_time_is_read_again(log: Path, reads: Iterator[list[Path]]):
    load_log(log, indexes=folder_of(log))
    about = log.stat()
    log.write_bytes(TORCH.read_bytes().replace(b"2.13.0", b"2.13.1", 1))
    os.utime(log, ns=(about.st_atime_ns, about.st_mtime_ns))
    load_log(log, indexes=folder_of(log))
    assert next(reads) == [log, log]


def test_another_ctrace_reads_the_log_again(log: Path, reads: Iterator[list[Path]], monkeypatch: pytest.MonkeyPatch):
    load_log(log, indexes=folder_of(log))
    monkeypatch.setattr(session_cache, "_code", lambda: "another")
    load_log(log, indexes=folder_of(log))
    assert next(reads) == [log, log]


def test_other_sources_read_the_log_again(
    log: Path, reads: Iterator[list[Path]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    source = tmp_path / "model.py"
    monkeypatch.setattr(session_cache, "_sources", lambda _session: [str(source)])
    load_log(log, indexes=folder_of(log))
    source.write_text("model = None\n")
    load_log(log, indexes=folder_of(log))
    assert next(reads) == [log, log]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data.replace(b"\n", b" "),
        lambda data: b"[]\n" + data.partition(b"\n")[2],
        lambda data: b"{}\n" + data.partition(b"\n")[2],
        lambda data: b"[" * 100_000 + b"\n",
        lambda data: data[:-200] + bytes(200),
        lambda data: b"\x80" + data,
    ],
)
def test_a_damaged_index_is_written_again(log: Path, damage, reads: Iterator[list[Path]]):
    first = load_log(log, indexes=folder_of(log))
    whole = file_of(log).read_bytes()
    file_of(log).write_bytes(damage(whole))
    assert load_log(log, indexes=folder_of(log)) == first
    assert next(reads) == [log, log]
    assert file_of(log).read_bytes() == whole


def forged(log: Path, session: Session) -> None:
    """Replace the content of an index, with a digest that matches."""
    header, _, _ = file_of(log).read_bytes().partition(b"\n")
    body = msgspec.msgpack.encode(session)
    known = {**json.loads(header), "digest": hashlib.sha256(body).hexdigest()}
    file_of(log).write_bytes(json.dumps(known).encode() + b"\n" + body)


def test_an_index_cannot_name_another_file(log: Path, reads: Iterator[list[Path]]):
    first = load_log(log, indexes=folder_of(log))
    forged(log, replace(first, printed={"0/0": Graphs(aliases=Stored("/etc/passwd", 0, 10))}))
    assert load_log(log, indexes=folder_of(log)) == first
    assert next(reads) == [log, log]


def test_an_index_with_another_form_is_not_read(log: Path):
    load_log(log, indexes=folder_of(log))
    header, _, _ = file_of(log).read_bytes().partition(b"\n")
    body = msgspec.msgpack.encode({"breaks": 7})
    known = {**json.loads(header), "digest": hashlib.sha256(body).hexdigest()}
    file_of(log).write_bytes(json.dumps(known).encode() + b"\n" + body)
    assert SessionCache(folder_of(log), log).read() is None


def test_without_permission_there_is_no_index(log: Path):
    folder = log.parent / "ours"
    folder.write_text("a file, not a folder")
    said: list[str] = []
    assert load_log(log, indexes=folder / ".logs", say=said.append).graphs
    assert said[0].startswith("no index of the log was written (Not a directory)")


def test_a_full_disk_leaves_the_former_index(log: Path, monkeypatch: pytest.MonkeyPatch):
    first = load_log(log, indexes=folder_of(log))
    former = file_of(log).read_bytes()
    file_of(log).write_bytes(former[:-1])

    def full(*_args: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(session_cache, "write_bytes", full)
    said: list[str] = []
    assert load_log(log, indexes=folder_of(log), say=said.append) == first
    assert "No space left on device" in said[0]
    assert file_of(log).read_bytes() == former[:-1]


def test_old_indexes_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_cache, "_MOST_FILES", 2)
    for number in range(4):
        log = tmp_path / f"{number}.log"
        log.write_bytes(TORCH.read_bytes())
        load_log(log, indexes=tmp_path / ".logs")
    assert len(list((tmp_path / ".logs").glob("*.index"))) == 2


def test_a_log_that_changed_after_it_was_read_is_an_error(log: Path):
    session = load_log(log)
    log.write_bytes(b"short")
    with pytest.raises(Exception, match="changed while it was read"):
        print(next(iter(session.printed.values())).printed[0].text)


@pytest.mark.parametrize(
    "value", [b'"co_name": "\\ud800"', b'"co_firstlineno": 1, "guard_count": 100000000000000000000']
)
def test_value_that_no_index_can_contain_is_no_crash(log: Path, value: bytes):
    log.write_bytes(re.sub(rb'"co_name": "[^"]*"', value.replace(b"\\", b"\\\\"), log.read_bytes()))
    said: list[str] = []
    assert load_log(log, indexes=folder_of(log), say=said.append).compilations
    assert not said or said[0].startswith(
        "no index of the log was written (the log has a value that it cannot contain: "
    )


def test_lone_surrogate_in_a_log_leaves_it_without_an_index(log: Path):
    log.write_bytes(log.read_bytes().replace(b'"name": "', b'"name": "\\ud800'))
    said: list[str] = []
    load_log(log, indexes=folder_of(log), say=said.append)
    assert said
    assert "surrogates not allowed" in said[0]
