"""The errors that ctrace raises for the user, and their exit codes."""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the `ctrace` command; docs/reference/exit-codes.md documents them."""

    DONE = 0
    WORSE = 1
    """`check`: something got worse; `diff`, `accuracy` and `upgrade --fail-on`, `ranks --fail`: the condition holds."""
    USAGE = 2
    """The command line, the target, the policy or a run file is wrong."""
    PROGRAM = 3
    """The user's program raised, crashed, was cut off or timed out, or a model file ended the process."""
    UNTRUSTED = 4
    """`check`: nothing compiled, the log was cut off, or the sources disagree."""
    BUG = 70
    """A bug of ctrace itself."""


class CtraceError(Exception):
    """A problem that the user can fix: one line says what is wrong, the next line says what to do.

    `cli/main.py` catches it, prints both lines to stderr and exits with `exit_code`. A comparison of several GPUs also
    catches it and continues with the next GPU.
    """

    exit_code = Exit.USAGE

    def __init__(self, what: str, todo: str) -> None:
        super().__init__(what)
        self.what = what
        self.todo = todo

    def __reduce__(self) -> "tuple[Callable[..., CtraceError], tuple[type[CtraceError], dict[str, str]]]":
        """Keep both lines on the way back from a process that reads logs."""
        return _restored, (type(self), {"what": self.what, "todo": self.todo})


def _restored(kind: type[CtraceError], lines: dict[str, str]) -> CtraceError:
    # Not by the constructor: subclasses take other arguments, as `SelectionError` does.
    error = kind.__new__(kind, lines["what"])
    error.__dict__.update(lines)
    error.args = (lines["what"],)
    return error


class TargetError(CtraceError):
    """The target, its inputs, or an option about them is wrong."""


class SelectionError(TargetError):
    """An option of a view selects something that is not in the run.

    Args:
        option: the option that narrows the view, such as `graph`; the command line adds the dashes.
        what: the requested value, a colon, and what is wrong with it.
    """

    def __init__(self, option: str, what: str, todo: str) -> None:
        super().__init__(f"--{option} {what}", todo)


class RunError(CtraceError):
    """A saved run is missing, unreadable or written by a newer ctrace, or cannot be written."""


class SettingsError(CtraceError):
    """The project's settings, `[tool.ctrace]` in pyproject.toml, are wrong."""


class PolicyError(CtraceError):
    """The policy of `ctrace check` is wrong, or cannot be read or written."""


class LockError(CtraceError):
    """The lock of `ctrace check` is wrong, or cannot be read or written."""


class SetupError(CtraceError):
    """The environment lacks what a capture needs, such as a torch that ctrace supports."""


class DumpError(CtraceError):
    """The target folder of a dump contains other files, or cannot be written."""


_ANNOUNCING = 2
"""How many lines may come before the one that tells."""


def telling_line(message: str) -> str:
    """Return what an exception says first, in one line, with what follows a line that only announces it.

    A message may begin with an empty line, or with one such as `backend='inductor' raised:`.
    """
    lines = [" ".join(line.split()) for line in message.splitlines() if line.strip()]
    begins = next((number for number, line in enumerate(lines) if not line.endswith(":")), 0)
    return " ".join(lines[: min(begins, _ANNOUNCING) + 1])


# Chosen: the hint stays within about two lines of a terminal.
_MOST_NAMES = 8


def did_you_mean(asked: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return advice on an unknown name: the nearest known name, else `otherwise`, else the list of known names."""
    names = list(dict.fromkeys(known))
    if (closest := nearest(asked, names)) is not None:
        return f"did you mean {closest}?"
    return otherwise or f"there are: {', '.join(names[:_MOST_NAMES]) or 'none'}"


def near(word: str, known: Iterable[str]) -> str:
    """Return advice on an unknown word: the nearest known word, or all of them."""
    names = list(known)
    return did_you_mean(word.lower(), names, f"there are: {', '.join(names)}")


def nearest(asked: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like an unknown one; None: none is.

    The dashes of options and the ends of Python files do not count: they make any two names alike.
    """
    from difflib import get_close_matches  # slow to import, and only needed when something is wrong

    # Reversed, so that of several names with one word the first one known stays.
    by_word = {_word(name): name for name in reversed(list(known))}
    # Cut, because the comparison takes quadratic time, and a typed name has no such length.
    found = get_close_matches(_word(asked[:100]), by_word, 1)
    return by_word[found[0]] if found else None


def _word(name: str) -> str:
    return name.lstrip("-").removesuffix(".py")


def shown(value: object) -> str:
    """Return a value from the user's file as one short line."""
    if isinstance(value, Mapping | list | set | tuple):
        return f"a {type(value).__name__}"
    if isinstance(value, int) and abs(value) > 1 << 64:
        return "a number of that size"
    text = "".join(letter if letter.isprintable() else " " for letter in str(value))
    if len(text) <= 40:
        return text
    return f"{text[:39]}…"
