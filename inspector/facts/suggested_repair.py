"""What `ctrace check --suggest` found for a finding: a proved repair as replacements of lines, or why there is none."""

from msgspec import Struct


class Replacement(Struct, frozen=True):
    """Lines of a file that a repair replaces, inserts or removes, with a line of context where a review needs one."""

    file: str
    """Absolute."""
    line: int
    """The first line that is replaced, from 1; for an insertion, the line before which the text goes."""
    end: int
    """The line after the last one that is replaced; for an insertion, `line`."""
    old: str
    """The lines that are replaced, whole."""
    new: str
    """The lines that replace them, whole."""
    before: str = ""
    """The line before the replaced ones, whole; empty at the top of the file."""


class SuggestedRepair(Struct, frozen=True):
    """The outcome of the search for a repair of one finding."""

    repair: str = ""
    """Name of the repair; empty if there is none."""
    kind: str = ""
    """`configuration` or `source`."""
    summary: str = ""
    proved: bool = False
    why: str = ""
    """Why nothing is proved; empty if a repair is."""
    note: str = ""
    """How far the proof reaches."""
    question: str = ""
    """What only the author can decide: the repair is proved except for that, and must not be applied without an answer.
    """
    library: str = ""
    """The package that the repair changes; empty: the user's own files."""
    how: str = ""
    """What to write where no file can be changed."""
    command: str = ""
    """The command that shows the repair, or applies it."""
    patch: str = ""
    replacements: tuple[Replacement, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether the repair can be applied as it is: proved, in the user's own files, without a question."""
        return self.proved and not self.question and not self.library
