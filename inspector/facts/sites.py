"""Places that keep a model from compiling well. A *site* is identified by its content, not by its line number, so that
two runs can be compared although code was moved.
"""

from enum import StrEnum

from msgspec import Struct, field

from ctrace.inspector.facts.findings import Cost, Owner


class SiteKind(StrEnum):
    """The kind of problem at a site."""

    BREAK = "break"
    DISABLED = "disabled"
    """A break that the author requested."""
    SKIP = "skip"
    RECOMPILE = "recompile"
    """A recompilation after warm-up; see `sites.is_after_warm_up`."""
    DANGER = "danger"
    """A compiled call and eager produced different results."""
    CULPRIT = "culprit"
    """An operation whose compiled result is further off than rounding explains, on its real inputs."""


# With an order, so that a lock and a repeated run list sites in the same one.
class SiteKey(Struct, frozen=True, order=True):
    """Identifies a site across runs, even if code is moved or reformatted."""

    kind: SiteKind
    causes: tuple[str, ...]
    """Sorted: for a break, gb ids; for a skip, gb ids or a rule's name; for the others, kinds of causes.

    For a culprit, its dtype, then its operations as they are.
    """
    owner: Owner
    place: str
    """`path/of/file.py::Class.method`, with `/`; the path is relative to the policy's folder or to site-packages."""
    text: str
    """Normalized source of the statement, without comments and line breaks; for a recompilation, the values that
    changed.
    """


class Site(Struct, frozen=True):
    """A site in a run."""

    key: SiteKey
    times: int = 1
    """For a break, how many compilations of its function hit it; for a recompilation, how often it happened."""
    file: str = ""
    line: int = 0
    source: str = ""
    """The source line with its indentation; empty if not known."""
    span: tuple[int, int] | None = None
    """The columns of the cause in the line without its indentation; see `findings.Frame.span`."""
    reason: str = ""
    fix: str = ""
    cost: Cost = field(default_factory=Cost)
    by_inductor: bool = False
    """For a recompilation, whether guards that Inductor added to a graph may be the cause."""
    follows: SiteKey | None = None
    """The break that leads the site's root cause: the one around it in the same line, or the one before a recompilation
    for its result.
    """
    places: int = 1
    """How many equal statements of the function this site stands for; limits count each of them."""


class Known(Struct, frozen=True):
    """A site as an earlier run had it: in the lock, or in the other run of a diff."""

    key: SiteKey
    times: int = 1
