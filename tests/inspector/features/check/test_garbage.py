"""Any text as policy or lock either parses, or raises an error that names file and line."""

import json
import random
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrace.inspector.errors import CtraceError, LockError, PolicyError
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.sites import Known, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import Baseline, JobKey, Lock
from ctrace.inspector.features.check.lock_file import load_lock, lock_text, parse_lock
from ctrace.inspector.features.check.policy_file import load_policy
from ctrace.inspector.features.check.policy_model import Count
from ctrace.inspector.features.check.policy_starter import starter
from tests.support.helpers import any_json, fuzzing
from tests.support.sampling import examples

POLICY = re.sub(r"^#(?=[a-z]|  )", "", starter(["models/*.py", "*.py"], targets=["cpu", "h100"]), flags=re.MULTILINE)
_KEYS = sorted(set(re.findall(r"\w+(?=:)", POLICY)))
_WORDS = st.sampled_from([*_KEYS, "base", "training", "cpu", "h100", "GB0170", "1MiB", "10m", "2027-01-31", "0=1,2"])
_PIECES = st.lists(
    st.sampled_from(
        [*(f"{key}: " for key in _KEYS), ":\n", "  ", "\n  ", "{", "}", "[", "]", "&x ", "*x", "<<: ", "!!int ", "!!set ",
         "- ", "? ", "| ", "> ", "'", '"', "#", ": ", ",", "1e9", "0x1F", "1:60", "~", "---\n", "...\n", "\n", "\t", "%",
         "2001-1-1", "é", "null", "true", "\r", "\u2028", "\\U00110000", "%YAML 1.1\n", "%TAG ! x\n", "\0"]
    ),
    max_size=25,
).map("".join)  # fmt: skip
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.dates() | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS | st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
_fuzz = settings(fuzzing, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src" / "mylib").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ends_well(file: Path, content: bytes, error: type[CtraceError]) -> None:
    """Read a file; if it is refused, check the form of the error."""
    file.write_bytes(content)
    read = {PolicyError: load_policy, LockError: load_lock}[error]
    try:
        read(file)
    except error as seen:
        assert re.match(rf"{re.escape(file.name)}, line [1-9]\d*: .", seen.what), seen.what
        ends = re.findall("[\n\r\x85\u2028\u2029]", content.decode("utf-8", "replace"))
        assert int(seen.what.split()[2][:-1]) <= len(ends) + 1
        assert seen.todo
        assert all(letter.isprintable() for letter in seen.what + seen.todo), seen.what


def mutated(text: str, seed: int) -> str:
    """Delete, duplicate, swap or change a few lines or characters."""
    rng = random.Random(seed)
    lines = text.split("\n")
    for _ in range(rng.randint(1, 4)):
        here, there = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(5):
            case 0 if len(lines) > 1:
                del lines[here]
            case 1:
                lines.insert(there, lines[here])
            case 2:
                lines[here], lines[there] = lines[there], lines[here]
            case 3:
                lines[here] = lines[here][: rng.randint(0, len(lines[here]))]
            case _ if lines[here]:
                at = rng.randrange(len(lines[here]))
                new = rng.choice("x0-:,[]{}'\"#&*!%|> \t\r\0\x85\u2028é")
                lines[here] = lines[here][:at] + new + lines[here][at + rng.randint(0, 1) :]
    return "\n".join(lines)


class TestPolicy:
    @_fuzz
    @given(st.binary(max_size=200))
    def test_bytes(self, folder: Path, content: bytes):
        ends_well(folder / "ctrace.yaml", content, PolicyError)

    @_fuzz
    @given(st.text(max_size=80) | _PIECES)
    def test_text(self, folder: Path, text: str):
        ends_well(folder / "ctrace.yaml", text.encode(), PolicyError)

    @_fuzz
    @given(st.sampled_from(_KEYS), _VALUES | any_json)
    def test_values_below_each_key(self, folder: Path, key: str, value: object):
        ends_well(folder / "ctrace.yaml", yaml.safe_dump({key: value}).encode(), PolicyError)

    @_fuzz
    @given(st.sampled_from(["models", "allow"]), st.dictionaries(_WORDS, _VALUES, max_size=5))
    def test_entries(self, folder: Path, key: str, entry: dict[str, object]):
        ends_well(folder / "ctrace.yaml", yaml.safe_dump({key: [entry]}).encode(), PolicyError)

    @_fuzz
    @given(st.dictionaries(_WORDS, _VALUES, max_size=5))
    def test_scenarios(self, folder: Path, options: dict[str, object]):
        ends_well(folder / "ctrace.yaml", yaml.safe_dump({"scenarios": {"a": options}}).encode(), PolicyError)

    @_fuzz
    @given(st.integers(0, 1 << 32))
    def test_mutations(self, folder: Path, seed: int):
        ends_well(folder / "ctrace.yaml", mutated(POLICY, seed).encode(), PolicyError)

    def test_what_is_mutated_is_a_policy(self, folder: Path):
        (folder / "ctrace.yaml").write_text(POLICY)
        assert load_policy(folder / "ctrace.yaml").allow


_texts = st.text(max_size=8) | st.sampled_from(
    ["\u2028", "\x85", "\n", "\r\n", '"', "\\", "\x00", "[torch 2.13]", "<<<<<<< a", "#", "{", "🙂", "\ufeff", "\u202e"]
)
_keys = st.builds(
    SiteKey, st.sampled_from(SiteKind), st.lists(_texts, max_size=2).map(tuple), st.sampled_from(Owner), _texts, _texts
)
_sites = st.dictionaries(_keys, st.integers(1, 1 << 40), max_size=4).map(
    lambda found: tuple(Known(key, found[key]) for key in sorted(found))
)
_counts = st.dictionaries(st.sampled_from(Count), st.integers(0, 1 << 50), max_size=4)
_jobs = st.builds(JobKey, _texts, _texts, _texts)
_sections = st.dictionaries(_jobs, st.builds(Baseline, _counts, _sites), max_size=4)
_versions = st.builds("{}.{}".format, st.integers(0, 30), st.integers(0, 30))
_locks = st.builds(Lock, st.dictionaries(_versions, _sections, max_size=3), st.just("ctrace.lock"))


class TestLock:
    @_fuzz
    @given(_locks)
    def test_round_trip(self, lock: Lock):
        assert parse_lock(lock_text(lock), "ctrace.lock") == lock

    @_fuzz
    @given(_locks, st.randoms(use_true_random=False))
    def test_order_does_not_matter(self, lock: Lock, rng: random.Random):
        def shuffled(table):
            return dict(rng.sample(list(table.items()), len(table)))

        again = {
            version: {
                job: Baseline(shuffled(found.counts), tuple(rng.sample(found.sites, len(found.sites))))
                for job, found in shuffled(jobs).items()
            }
            for version, jobs in shuffled(lock.sections).items()
        }
        assert lock_text(Lock(again)) == lock_text(lock)

    @_fuzz
    @given(_locks)
    def test_any_record_can_be_missing(self, lock: Lock):
        lines = lock_text(lock).split("\n")
        for at in (index for index, line in enumerate(lines) if line.startswith("{")):
            fewer = parse_lock("\n".join(lines[:at] + lines[at + 1 :]), "ctrace.lock")
            assert fewer.sections.keys() == lock.sections.keys()
            assert fewer != lock or lines[at].endswith('"counts": {}}')

    @_fuzz
    @given(_sections, _sections)
    def test_lines_of_two_locks_together(self, ours: dict[JobKey, Baseline], theirs: dict[JobKey, Baseline]):
        theirs = {job: found for job, found in theirs.items() if job not in ours}
        texts = [lock_text(Lock({"2.13": jobs})) for jobs in (ours, theirs)]
        union = sorted({line for text in texts for line in text.split("\n")})
        assert parse_lock("\n".join(union), "x") == Lock({"2.13": {**ours, **theirs}}, "x")

    @_fuzz
    @given(_sections)
    def test_every_record_stands_apart(self, jobs: dict[JobKey, Baseline]):
        lines = lock_text(Lock({"2.13": jobs})).split("\n")
        records = [index for index, line in enumerate(lines) if line.startswith("{")]
        assert all(not lines[at - 1] and not lines[at + 1] for at in records)
        assert all(isinstance(json.loads(lines[at]), dict) for at in records)

    @_fuzz
    @given(st.binary(max_size=200))
    def test_bytes(self, folder: Path, content: bytes):
        ends_well(folder / "ctrace.lock", content, LockError)

    @_fuzz
    @given(st.text(max_size=80))
    def test_text(self, folder: Path, text: str):
        ends_well(folder / "ctrace.lock", text.encode(), LockError)

    @_fuzz
    @given(
        st.dictionaries(st.sampled_from(["model", "scenario", "target", "counts", "break", "owner", "times"]), any_json)
    )
    def test_records(self, folder: Path, record: dict[str, object]):
        text = "[torch 2.13]\n" + json.dumps({"model": "a", "scenario": "b", "target": "c", **record})
        ends_well(folder / "ctrace.lock", text.encode(), LockError)

    @_fuzz
    @given(_locks, st.integers(0, 1 << 32))
    def test_mutations(self, folder: Path, lock: Lock, seed: int):
        ends_well(folder / "ctrace.lock", mutated(lock_text(lock), seed).encode(), LockError)
