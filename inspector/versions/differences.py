"""What torch does differently from release to release, where that changes what ctrace can show."""

from dataclasses import dataclass

from ctrace.inspector.versions.releases import release_of


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between releases of torch."""

    name: str
    since: tuple[int, int] | None
    """The first release with it; None: all before `until`."""
    until: tuple[int, int] | None
    """The first release without it; None: no end yet."""
    what: str
    """What torch does, as a sentence."""
    effect: str
    """What follows for the user of ctrace, as a sentence."""
    source: str
    """File and name in torch."""

    def holds(self, version: str) -> bool:
        """Whether a torch has it; an unknown version counts as the newest."""
        release = release_of(version)
        if release is None:
            return self.until is None
        return (self.since is None or release >= self.since) and (self.until is None or release < self.until)

    @property
    def range(self) -> str:
        """The releases that have it, in words."""
        since = f"{self.since[0]}.{self.since[1]}" if self.since else ""
        until = f"{self.until[0]}.{self.until[1]}" if self.until else ""
        if since and until:
            return f"{since} to before {until}"
        return f"before {until}" if until else f"from {since}"


DEFERRED_CONSTANTS = Difference(
    "deferred constants",
    since=(2, 14),
    until=None,
    what="Arithmetic on an int, float or bool is traced without a guard; the guard is made where the result is used.",
    effect="The cause of a recompilation is shown at the line that first computes with the value, as before.",
    source="_dynamo/variables/lazy.py, ComputedLazyConstantVariable",
)
DIFFERENCES = (DEFERRED_CONSTANTS,)
"""In the order of the releases that made them."""
