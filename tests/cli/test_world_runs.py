"""The logs of a virtual job stay until those of the next one are complete."""

from pathlib import Path

import pytest

from ctrace.cli.commands.ranks import replaced_when_complete


def job(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / name).touch()


def names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))


def test_a_complete_job_replaces_the_earlier_one(tmp_path: Path) -> None:
    job(tmp_path / "ranks", "old")
    with replaced_when_complete(tmp_path / "ranks"):
        job(tmp_path / "ranks", "new")
    assert names(tmp_path) == ["ranks", "ranks/new"]


class EndedError(Exception):
    """What ends a job."""


def fail(folder: Path, error: BaseException, *, has_begun: bool) -> None:
    with replaced_when_complete(folder):
        if has_begun:
            job(folder, "new")
        raise error


@pytest.mark.parametrize("error", [EndedError, KeyboardInterrupt])
@pytest.mark.parametrize("has_begun", [False, True])
def test_a_job_that_fails_leaves_the_earlier_one(error: type[BaseException], has_begun: bool, tmp_path: Path) -> None:
    job(tmp_path / "ranks", "old")
    with pytest.raises(error):
        fail(tmp_path / "ranks", error(), has_begun=has_begun)
    assert names(tmp_path) == ["ranks", "ranks/old"]


def test_what_a_killed_process_set_aside_comes_back(tmp_path: Path) -> None:
    job(tmp_path / "ranks-before", "old")
    job(tmp_path / "ranks", "half")
    with pytest.raises(EndedError):
        fail(tmp_path / "ranks", EndedError(), has_begun=False)
    assert names(tmp_path) == ["ranks", "ranks/old"]


def test_a_first_job_that_fails_leaves_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(EndedError):
        fail(tmp_path / "ranks", EndedError(), has_begun=True)
    assert names(tmp_path) == ["ranks", "ranks/new"]
