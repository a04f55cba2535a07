"""The lock file: its text, edits that it survives, and text that it refuses."""

from pathlib import Path

import pytest

from ctrace.inspector.errors import Exit, LockError
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.sites import Known, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import Baseline, JobKey, Lock
from ctrace.inspector.features.check.lock_file import load_lock, lock_text, parse_lock, write_lock
from ctrace.inspector.features.check.policy_model import Count

BREAK = SiteKey(SiteKind.BREAK, ("GB0170",), Owner.USER, "mask.py::Mask.forward", "if is_pad.any():")
SKIP = SiteKey(SiteKind.SKIP, (), Owner.LIBRARY, "lib/a.py::f", 'say("é\n")')
LOCK = Lock(
    {
        "2.13": {
            JobKey("mask.py"): Baseline({Count.KERNELS: 2, Count.GRAPHS: 3}, (Known(BREAK), Known(SKIP, 4))),
            JobKey("mask.py", "training", "h100"): Baseline({Count.BREAKS: 0}),
            JobKey("a.py"): Baseline(),
        },
        "2.9": {JobKey("mask.py"): Baseline({Count.GRAPHS: 1})},
        "2.14": {},
    }
)
TEXT = """\
# ctrace.lock 1: what torch.compile left out of each model, by torch version; ctrace check allows no more.
# Written by ctrace check --update; with --only-improve, nothing in it gets looser.

[torch 2.9]

{"model": "mask.py", "scenario": "base", "target": "cpu", "counts": {"graphs": 1}}

[torch 2.13]

{"model": "a.py", "scenario": "base", "target": "cpu", "counts": {}}

{"model": "mask.py", "scenario": "base", "target": "cpu", "counts": {"graphs": 3, "kernels": 2}}

{"model": "mask.py", "scenario": "base", "target": "cpu", "break": ["GB0170"], "owner": "user", "place": "mask.py::Mask.forward", "text": "if is_pad.any():", "times": 1}

{"model": "mask.py", "scenario": "base", "target": "cpu", "skip": [], "owner": "library", "place": "lib/a.py::f", "text": "say(\\"é\\n\\")", "times": 4}

{"model": "mask.py", "scenario": "training", "target": "h100", "counts": {"breaks": 0}}

[torch 2.14]
"""
JOB = '"model": "a", "scenario": "base", "target": "cpu"'
SITE = '"break": ["GB1"], "owner": "user", "place": "p", "text": "t", "times": 1'


def record(holds: str) -> str:
    return f"{{{JOB}, {holds}}}"


def one(holds: str) -> str:
    """Return a lock with one section and one record."""
    return f"[torch 2.1]\n{record(holds)}"


def refused(text: str) -> LockError:
    with pytest.raises(LockError) as caught:
        parse_lock(text, "ctrace.lock")
    assert caught.value.exit_code is Exit.USAGE
    assert "\n" not in caught.value.what + caught.value.todo
    return caught.value


def test_what_it_looks_like():
    assert lock_text(LOCK) == TEXT


def test_it_reads_what_it_wrote():
    assert parse_lock(TEXT, "x") == Lock(LOCK.sections, "x")


@pytest.mark.parametrize("text", ["", "\n", "# ctrace.lock 1", "\ufeff# ctrace.lock 1: x", "  \r\n\t\n"])
def test_nothing_is_an_empty_lock(text: str):
    assert parse_lock(text, "x") == Lock({}, "x")


@pytest.mark.parametrize(
    "text",
    [TEXT.replace("\n", "\r\n"), "\ufeff" + TEXT, TEXT.replace("\n", "  \n"), TEXT.replace("\n\n", "\n"), TEXT.strip(),
     TEXT + TEXT, TEXT.replace("\n", "\n\n# a remark\n"), TEXT.replace(": ", ":").replace('", "', '","')],
)  # fmt: skip
def test_what_editors_and_git_do_to_it(text: str):
    assert parse_lock(text, "x").sections.keys() == LOCK.sections.keys()
    assert len(parse_lock(text, "x").sections["2.13"]) == 3


def test_order_does_not_matter():
    again = {
        version: {
            job: Baseline(dict(reversed(list(found.counts.items()))), found.sites[::-1])
            for job, found in reversed(list(jobs.items()))
        }
        for version, jobs in reversed(list(LOCK.sections.items()))
    }
    assert lock_text(Lock(again)) == TEXT


ODD = [
    "a\nb",
    "\r",
    "\x00\x07\x7f",
    "\u2028\u2029\x85",
    "\u202e\u200b\ufeff",
    '"\\',
    "日本 é 🙂",
    "[torch 9.9]",
    "# x",
    "\U000e0001",
]


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_stay_on_their_line(text: str):
    key = SiteKey(SiteKind.RECOMPILE, (text,), Owner.TORCH, text, text)
    lock = Lock({"2.13": {JobKey(text, text, text): Baseline({}, (Known(key),))}}, "x")
    written = lock_text(lock)
    assert written.splitlines() == written.split("\n")[:-1]
    assert all(letter.isprintable() for letter in written if letter != "\n")
    assert parse_lock(written, "x") == lock


WRONG = [
    ("<<<<<<< HEAD", 1, "conflict", "take one side and run ctrace check --update"),
    ("=======", 1, "conflict", "resolve"),
    (">>>>>>> x", 1, "conflict", "resolve"),
    ("||||||| x", 1, "conflict", "resolve"),
    ("# ctrace.lock 2: x", 1, "reads lock format 1", "update ctrace"),
    ("# x\n#ctrace.lock 99999999999999999999: x", 2, "reads lock format 1", "update ctrace"),
    ("[torch]", 1, "not a section header", "[torch 2.13]"),
    ("[torch 2.13.0]", 1, "not a section header", "[torch 2.13]"),
    ("[1]", 1, "not a section header", "[torch 2.13]"),
    (record(SITE), 1, "before any [torch ...]", "put the line"),
    ("[torch 2.1]\nnothing", 2, "neither a JSON record", "--update"),
    ("[torch 2.1]\n{", 2, "neither a JSON record", "--update"),
    ("[torch 2.1]\n" + '{"a":' * 90_000, 2, "neither a JSON record", "--update"),
    ("[torch 2.1]\n3", 2, "a record must be a JSON object", "--update"),
    ("[torch 2.1]\n{}", 2, "the record has no model", "--update"),
    ('[torch 2.1]\n\n{"model": 3}', 3, "model is not a text", "--update"),
    ("[torch 2.1]\n{" + JOB + "}", 2, "needs one of counts, break", "--update"),
    (one(SITE + ', "counts": {}'), 2, "needs one of counts", "--update"),
    (one(SITE + ', "skip": []'), 2, "needs one of counts", "--update"),
    (one('"brake": []'), 2, "needs one of counts", "--update"),
    (one('"counts": {}, "line": 3'), 2, "unknown key line", "there are: model"),
    (one(SITE + ', "tims": 3'), 2, "unknown key tims: did you mean times?", "--update"),
    (one('"counts": []'), 2, "counts is not a table", "--update"),
    (one('"counts": {"graph": 1}'), 2, "unknown key graph: did you mean graphs?", "--update"),
    (one('"counts": {"graphs": -1}'), 2, "graphs is not a whole number", "--update"),
    (one('"counts": {"graphs": true}'), 2, "graphs is not a whole number", "--update"),
    (one('"counts": {"graphs": 1.0}'), 2, "graphs is not a whole number", "--update"),
    (one('"counts": {"graphs": NaN}'), 2, "graphs is not a whole number", "--update"),
    (one('"counts": {"graphs": ' + "9" * 5000 + "}"), 2, "a number is too long", "--update"),
    (one('"counts": {"graphs": 1, "graphs": 2}'), 2, "graphs is defined twice", "--update"),
    (one(SITE.replace('["GB1"]', '"GB1"')), 2, "break is not a list of texts", "--update"),
    (one(SITE.replace('["GB1"]', "[1]")), 2, "break is not a list of texts", "--update"),
    (one(SITE.replace("user", "usr")), 2, "no owner usr: did you mean user?", "--update"),
    (one(SITE.replace('"t"', "null")), 2, "text is not a text", "--update"),
    (one(SITE.replace(": 1", ": 0")), 2, "times is not a whole number of 1", "--update"),
    (one(SITE.replace(', "times": 1', "")), 2, "times is not a whole number", "--update"),
    (one('"counts": {}') + "\n" + record('"counts": {"graphs": 1}'), 3, "contradicts line 2", "remove one"),
    (one(SITE) + "\n\n" + record(SITE.replace(": 1", ": 2")), 4, "contradicts line 2", "remove one"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "what", "todo"), WRONG, ids=range(len(WRONG)))
def test_what_is_refused(text: str, line: int, what: str, todo: str):
    error = refused(text)
    assert error.what.startswith(f"ctrace.lock, line {line}: ")
    assert what in error.what
    assert todo in error.todo or todo in error.what


def test_the_same_record_twice_is_one():
    same = record(SITE)
    assert parse_lock(f"[torch 2.1]\n{same}\n{same}", "x") == parse_lock(one(SITE), "x")


def test_the_same_job_in_two_sections_is_two():
    counts = '{%s, "counts": {"graphs": %d}}'
    lock = parse_lock(f"[torch 2.1]\n{counts % (JOB, 1)}\n[torch 2.2]\n{counts % (JOB, 2)}", "x")
    assert [lock.sections[each][JobKey("a")].counts[Count.GRAPHS] for each in ("2.1", "2.2")] == [1, 2]


class TestFile:
    def test_written_and_read(self, tmp_path: Path):
        path = tmp_path / "ctrace.lock"
        write_lock(path, LOCK)
        assert path.read_text(encoding="utf-8") == TEXT
        assert load_lock(path) == Lock(LOCK.sections, str(path))
        assert list(tmp_path.iterdir()) == [path]

    def test_one_that_is_not_there(self, tmp_path: Path):
        assert load_lock(tmp_path / "ctrace.lock") == Lock()

    def test_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "ctrace.lock").mkdir()
        with pytest.raises(LockError, match=r"^ctrace\.lock cannot be read: Is a directory"):
            load_lock(tmp_path / "ctrace.lock")
        with pytest.raises(LockError, match=r"^ctrace\.lock cannot be written: Is a directory"):
            write_lock(tmp_path / "ctrace.lock", LOCK)

    def test_bytes_that_are_no_text(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "ctrace.lock").write_bytes(b"# x\n\n\xff")
        with pytest.raises(LockError, match=r"^ctrace\.lock, line 3: not UTF-8 text"):
            load_lock(tmp_path / "ctrace.lock")

    def test_it_cannot_be_written(self, tmp_path: Path):
        with pytest.raises(LockError, match="cannot be written: No such file"):
            write_lock(tmp_path / "no" / "ctrace.lock", LOCK)
