"""Which branch and commit a run was captured at."""

import subprocess
from pathlib import Path

import pytest

from ctrace.inspector.runs.git_checkout import Checkout, checkout_of

_AS = ("-c", "user.name=a", "-c", "user.email=a@example.com")


def git(folder: Path, *words: str) -> str:
    ran = subprocess.run(["git", "-C", str(folder), *_AS, *words], check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "deep").mkdir()
    for branch in ("main", "feature/wide"):
        if branch != "main":
            git(tmp_path, "checkout", "-q", "-b", branch)
        (tmp_path / "deep" / "net.py").write_text(branch)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-q", "-m", branch)
    return tmp_path


@pytest.mark.parametrize("packed", [False, True])
def test_branch_and_commit_are_those_of_git(repository: Path, packed: bool):
    if packed:
        git(repository, "pack-refs", "--all")
    for branch in ("main", "feature/wide"):
        git(repository, "checkout", "-q", branch)
        assert checkout_of(repository / "deep") == Checkout(branch, git(repository, "rev-parse", "HEAD"))


def test_a_worktree_has_its_own_head(repository: Path, tmp_path_factory: pytest.TempPathFactory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "tree"
    git(repository, "worktree", "add", "-q", "--detach", str(elsewhere), "main")
    assert checkout_of(elsewhere) == Checkout("main", git(repository, "rev-parse", "main"))
    assert checkout_of(repository).branch == "feature/wide"


def test_a_commit_of_several_branches_or_none_has_no_branch(repository: Path):
    git(repository, "checkout", "-q", "--detach", "main")
    git(repository, "branch", "same", "main")
    assert checkout_of(repository) == Checkout(None, git(repository, "rev-parse", "main"))


def test_a_folder_without_a_repository_has_nothing(tmp_path: Path):
    assert checkout_of(tmp_path) == Checkout()


@pytest.mark.parametrize(
    "head", ["", "ref: refs/heads/../../../secret", "ref: refs/heads/.invalid", "0" * 39, "\0", "\udcff"]
)
def test_a_damaged_or_hostile_repository_has_no_commit(tmp_path: Path, head: str):
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text(head, errors="surrogateescape")
    assert checkout_of(tmp_path).commit is None


def test_a_repository_that_cannot_be_read_has_nothing(tmp_path: Path):
    (tmp_path / ".git").write_text("gitdir: missing\n")
    assert checkout_of(tmp_path) == Checkout()
