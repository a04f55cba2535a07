"""Rotated logs: their parts are found, ordered, joined and distinguished from other logs."""

import gzip
import tempfile
from pathlib import Path

import pytest

from ctrace.inspector.features.check.jobs import traced
from ctrace.inspector.features.check.policy_model import CheckPolicy
from ctrace.inspector.features.compare.ranks_of_job import read_job
from ctrace.inspector.log.files import grouped, join, rotation_note
from ctrace.inspector.log.folders import choose, logs_in, whole
from ctrace.inspector.runs.load import load_log
from tests.support.places import DATA

LOG = DATA / "print_break.torch.log"


def rotate(log: bytes, folder: Path, name: str) -> list[Path]:
    """Write a log as logrotate leaves it, cut inside of records; oldest part first."""
    third = len(log) // 3
    parts = [folder / f"{name}.2.gz", folder / f"{name}.1", folder / name]
    parts[0].write_bytes(gzip.compress(log[:third]))
    parts[1].write_bytes(log[third : 2 * third])
    parts[2].write_bytes(log[2 * third :])
    return parts


def test_parts_are_read_as_the_log_that_they_were(tmp_path: Path):
    parts = rotate(LOG.read_bytes(), tmp_path, "job.log")
    chosen = choose(tmp_path, None)
    assert chosen.parts == tuple(parts)
    joined = tmp_path / "joined"
    join(chosen.parts, joined)
    assert joined.read_bytes() == LOG.read_bytes()
    assert load_log(joined).breaks == load_log(LOG).breaks


def test_newest_part_stands_for_the_log_and_an_older_one_for_itself(tmp_path: Path):
    oldest, older, newest = rotate(LOG.read_bytes(), tmp_path, "job.log")
    assert whole(newest) == (oldest, older, newest)
    assert whole(older) == ()


def test_missing_part_is_named(tmp_path: Path):
    parts = rotate(LOG.read_bytes(), tmp_path, "job.log")
    assert rotation_note((parts[0], parts[2])).endswith("its 2 files are read as one log; missing between them: 1")


def test_damaged_part_is_a_problem_of_the_log(tmp_path: Path):
    parts = rotate(LOG.read_bytes(), tmp_path, "job.log")
    parts[0].write_bytes(parts[0].read_bytes()[:-40])
    joined = tmp_path / "joined"
    join(parts, joined)
    assert load_log(joined).problems


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["x.log.1", "x.log", "x.log.10", "x.log.2.gz"], [["x.log.10", "x.log.2.gz", "x.log.1", "x.log"]]),
        (["x.log-20260721", "x.log", "x.log-20260720.gz"], [["x.log-20260720.gz", "x.log-20260721", "x.log"]]),
        (["x.log", "y.log"], [["x.log"], ["y.log"]]),
        (["x.log", "x.log.gz"], [["x.log"], ["x.log.gz"]]),
        (["x.log.0", "x.log.1"], [["x.log.1"], ["x.log.0"]]),
        (["x.log", "x.log.0", "x.log.1"], [["x.log.1"], ["x.log.0"], ["x.log"]]),
    ],
)
def test_what_counts_as_rotated(tmp_path: Path, names: list[str], expected: list[list[str]]):
    for name in names:
        (tmp_path / name).write_bytes(b"")
    found = [[path.name for path in parts] for parts in grouped(tmp_path / name for name in names)]
    assert found == expected


def test_ranks_are_never_parts_of_each_other(tmp_path: Path):
    for number, name in enumerate(("x.log", "x.log.1", "x.log.2")):
        text = LOG.read_text(encoding="utf-8").replace('"frame_id"', f'"rank": {number}, "frame_id"')
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert [log.rank for log in logs_in(tmp_path).logs] == [0, 1, 2]


def test_rotated_logs_of_ranks_are_compared_whole(tmp_path: Path):
    for log in (DATA / "ranks" / "equal").glob("*.gz"):
        rotate(gzip.decompress(log.read_bytes()), tmp_path, log.name.removesuffix(".gz"))
    job = read_job(tmp_path)
    assert (job.agree, job.ranks) == (True, (0, 1))
    assert sum("was rotated: its 3 files" in note for note in job.notes) == 2


def test_difference_of_rotated_logs_is_read_from_their_parts(tmp_path: Path):
    for log in (DATA / "ranks" / "shape").glob("*.gz"):
        rotate(gzip.decompress(log.read_bytes()), tmp_path, log.name.removesuffix(".gz"))
    assert read_job(tmp_path).divergence == read_job(DATA / "ranks" / "shape").divergence


def test_check_of_a_rotated_log_says_so_and_leaves_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (folder := tmp_path / "logs").mkdir()
    (copies := tmp_path / "copies").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    rotate(LOG.read_bytes(), folder, "job.log")
    (found,) = traced(folder, "train", CheckPolicy(), tmp_path)
    (whole,) = traced(LOG, "train", CheckPolicy(), tmp_path)
    assert found.state is not None
    assert whole.state is not None
    assert found.state.sites == whole.state.sites
    assert [note for note in found.state.notes if "was rotated: its 3 files are read as one log" in note]
    assert not list(copies.iterdir())
