"""The least time that kernels can take on the GPU that they were emitted for: by bytes and operations, no times."""

from dataclasses import dataclass

from ctrace.inspector.kernels.built_view import Bound, bound_of
from ctrace.inspector.kernels.view import Part, Row, parts
from ctrace.inspector.model.built import Gpu
from ctrace.inspector.model.kernels import Stage
from ctrace.inspector.model.session import Session


@dataclass(frozen=True, slots=True)
class Least:
    """The least seconds that all calls of one kernel in one graph part can take, with nothing in a cache before."""

    row: Row
    bounds: tuple[Bound, ...]
    """Of each call."""

    @property
    def seconds(self) -> float | None:
        """Add up the calls; None: that of one is not known."""
        each = [bound.seconds for bound in self.bounds]
        known = [seconds for seconds in each if seconds is not None]
        return sum(known) if known and len(known) == len(each) else None

    @property
    def sets(self) -> tuple[str, ...]:
        """Say what sets it: `memory`, `arithmetic`, of several calls perhaps both."""
        return tuple(dict.fromkeys(bound.sets for bound in self.bounds if bound.sets))


@dataclass(frozen=True, slots=True)
class PartLeast:
    """The same of a graph part, kernels that need most first, those of which it is not known last."""

    graph: str
    stage: Stage
    kernels: tuple[Least, ...]

    @property
    def seconds(self) -> float | None:
        """Add up what is known: still a bound; None: nothing is known."""
        known = [each.seconds for each in self.kernels if each.seconds is not None]
        return sum(known) if known else None

    @property
    def unknown(self) -> int:
        """Count the kernels that it leaves out."""
        return sum(each.seconds is None for each in self.kernels)


def bounds(session: Session, found: tuple[Part, ...] | None = None) -> tuple[PartLeast, ...]:
    """Give the bounds of graph parts, by default of all."""
    return tuple(_part(session.gpu, part) for part in (parts(session) if found is None else found))


def _part(gpu: Gpu | None, part: Part) -> PartLeast:
    every = (_of_row(gpu, row) for row in part.rows)
    return PartLeast(part.graph, part.stage, tuple(sorted(every, key=_most)))


def _most(each: Least) -> tuple[bool, float]:
    return each.seconds is None, -(each.seconds or 0)


def least_of(session: Session, row: Row) -> Least:
    """Give the bound of one kernel."""
    return _of_row(session.gpu, row)


def _of_row(gpu: Gpu | None, row: Row) -> Least:
    launches = row.kernel.launches if len(row.kernel.launches) >= row.kernel.calls else ()
    return Least(row, tuple(bound_of(gpu, row.kernel, launch) for launch in launches))


def whole(session: Session) -> float | None:
    """Give the least seconds that all graph parts can take, each run once; None: not known."""
    known = [part.seconds for part in bounds(session) if part.seconds is not None]
    return sum(known) if known else None


def peaks(found: tuple[PartLeast, ...]) -> tuple[float, ...]:
    """List the peak rates that the bounds rest on, in operations a second, the greatest first."""
    rates = {bound.peak for part in found for each in part.kernels for bound in each.bounds if bound.peak}
    return tuple(sorted(rates, reverse=True))
