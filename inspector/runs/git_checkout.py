"""Find out which branch and commit of a git repository a folder has checked out (`checkout_of`), without starting git.

Uncommitted changes are not known: to find them takes git itself, which may take seconds in a large repository.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    pass


_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BRANCHES = "refs/heads/"
_LONGEST = 1 << 22
"""The most bytes of a file that are read: `packed-refs` has a line for each ref."""


class Checkout(Struct, frozen=True):
    """What is checked out; None where the repository does not say."""

    branch: str | None = None
    commit: str | None = None


def checkout_of(folder: Path) -> Checkout:
    """Return what the repository around a folder has checked out; nothing if there is none, or it cannot be read.

    A detached commit, as in the worktrees of `ctrace diff --git`, has the branch that it is the tip of, if that is one.
    """
    try:
        own = _own_folder(folder)
        if own is None:
            return Checkout()
        return _checked_out(own)
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links (Python 3.11 and 3.12)
        return Checkout()


def _checked_out(own: Path) -> Checkout:
    # In a worktree, HEAD is its own, and branches are those of the main repository.
    if (own / "commondir").is_file():
        common = own / _text(own / "commondir")
    else:
        common = own
    head = _text(own / "HEAD")
    if not head.startswith("ref: "):
        commit = _commit(head)
        # Several branches at one commit leave open which of them is meant.
        tips = [name for name, tip in _branches(common) if tip == commit]
        return Checkout(tips[0] if len(tips) == 1 else None, commit)
    ref = head.removeprefix("ref: ")
    # The file may come from anybody, and must not name a file outside of git's folder.
    if not ref.startswith(_BRANCHES) or ".." in ref:
        return Checkout()
    branch = ref.removeprefix(_BRANCHES)
    loose = common / ref
    return Checkout(branch, _commit(_text(loose)) if loose.is_file() else dict(_packed(common)).get(branch))


def _own_folder(folder: Path) -> Path | None:
    """Return git's folder for this working tree: `.git`, or, in a worktree, the folder that the file `.git` names."""
    folder = folder.resolve()
    for each in (folder, *folder.parents):
        at = each / ".git"
        if at.is_dir():
            return at
        if at.is_file():
            return each / _text(at).removeprefix("gitdir: ")
    return None


def _branches(common: Path) -> Iterator[tuple[str, str | None]]:
    """Yield each branch with its commit; a loose ref hides the packed one of the same name."""
    loose = {
        str(file.relative_to(common / _BRANCHES)): _commit(_text(file))
        for file in (common / _BRANCHES).rglob("*")
        if file.is_file()
    }
    yield from ({**dict(_packed(common)), **loose}).items()


def _packed(common: Path) -> Iterator[tuple[str, str | None]]:
    packed = common / "packed-refs"
    if not packed.is_file():
        return
    for line in _text(packed).splitlines():
        commit, _, ref = line.partition(" ")
        if ref.startswith(_BRANCHES):
            yield ref.removeprefix(_BRANCHES), _commit(commit)


def _commit(text: str) -> str | None:
    if _COMMIT.fullmatch(text):
        return text
    return None


def _text(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(_LONGEST).decode("utf-8", "replace").strip()
