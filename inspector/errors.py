"""The errors that ctrace raises on purpose, and the exit codes they end in."""

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the `ctrace` command; docs/reference/exit-codes.md documents them."""

    DONE = 0
    WORSE = 1
    """`check`: something got worse."""
    USAGE = 2
    """The command line, the target, the policy or a run file is wrong."""
    PROGRAM = 3
    """The user's program raised, crashed, was cut off or ran out of time, or a model file ended the process."""
    UNTRUSTED = 4
    """`check`: nothing compiled, the log was cut off, or the sources disagree."""
    BUG = 70
    """A bug of ctrace itself."""


class CtraceError(Exception):
    """Something is wrong that the user can put right: one line what, one line what to do.

    `cli/main.py` catches it, prints both lines to stderr and ends with `exit_code`; besides, only a comparison of
    several GPUs does, to go on with the others.
    """

    exit_code = Exit.USAGE

    def __init__(self, what: str, todo: str) -> None:
        super().__init__(what)
        self.what = what
        self.todo = todo


class TargetError(CtraceError):
    """The target, its inputs or an option that describes them is wrong."""


class SelectionError(TargetError):
    """What a view was asked for by one of its options is not in the run.

    Args:
        option: what narrows the view: `graph`, `kernel`; the command line spells it with dashes.
        what: the value that was asked for, a colon, and what is wrong with it.
    """

    def __init__(self, option: str, what: str, todo: str) -> None:
        super().__init__(f"--{option} {what}", todo)


class RunError(CtraceError):
    """A saved run is missing, unreadable or written by a newer ctrace, or cannot be written."""


class SettingsError(CtraceError):
    """The project's own settings, `[tool.ctrace]` in pyproject.toml, are wrong."""


class PolicyError(CtraceError):
    """The policy of `ctrace check` is wrong, or cannot be read or written."""


class LockError(CtraceError):
    """The lock of `ctrace check` is wrong, or cannot be read or written."""


class SetupError(CtraceError):
    """The environment lacks what a capture needs, such as a torch that ctrace supports."""


class DumpError(CtraceError):
    """The folder of a dump holds something else, or cannot be written."""


_MOST_NAMES = 8


def did_you_mean(asked: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return what to do about an unknown name: the nearest known one, else `otherwise`, else what there is."""
    from difflib import get_close_matches  # slow to import, and only needed when something is wrong

    names = list(dict.fromkeys(known))
    near = get_close_matches(asked[:100], names, 1)
    if near:
        return f"did you mean {near[0]}?"
    return otherwise or f"there are: {', '.join(names[:_MOST_NAMES]) or 'none'}"
