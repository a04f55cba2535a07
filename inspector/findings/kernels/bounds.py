"""Compute lower bounds on the run time of kernels on the target GPU from bytes and operations, without measurements."""

from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.built import Gpu
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.findings.kernels.built_view import Bound, bound_of
from ctrace.inspector.findings.kernels.kernel_view import KernelOfPart, PartKernels, parts


class Least(Struct, frozen=True):
    """The lower bound on the time of one kernel's calls in one graph part, in seconds, with cold caches."""

    JSON: ClassVar[str] = (
        "name=row.kernel.name calls=row.kernel.calls bytes=row.work.bytes flops=row.work.flops "
        "intensity=row.work.intensity least_seconds=seconds set_by=sets"
    )
    row: KernelOfPart
    bounds: tuple[Bound, ...]
    """The bound of each call."""

    @property
    def seconds(self) -> float | None:
        """The sum over all calls; None if one call's bound is not known."""
        each = [bound.seconds for bound in self.bounds]
        known = [seconds for seconds in each if seconds is not None]
        if known and len(known) == len(each):
            return sum(known)
        return None

    @property
    def sets(self) -> tuple[str, ...]:
        """The limits that set the bound: `memory`, `arithmetic`, or both for several calls."""
        return tuple(dict.fromkeys(bound.sets for bound in self.bounds if bound.sets))


class PartLeast(Struct, frozen=True):
    """The lower bounds of a graph part's kernels, slowest first; kernels without a known bound come last."""

    JSON: ClassVar[str] = "basis=BASIS graph stage least_seconds=seconds not_known_of=unknown kernels"
    graph: str
    stage: Stage
    kernels: tuple[Least, ...]
    BASIS: ClassVar[Basis] = Basis.COMPUTED

    @property
    def seconds(self) -> float | None:
        """The sum of the known bounds, itself a lower bound; None if no bound is known."""
        known = [each.seconds for each in self.kernels if each.seconds is not None]
        return sum(known) if known else None

    @property
    def unknown(self) -> int:
        """The number of kernels without a known bound."""
        return sum(each.seconds is None for each in self.kernels)


def bounds(session: Session, found: tuple[PartKernels, ...] | None = None) -> tuple[PartLeast, ...]:
    """Return the lower bounds of the selected graph parts, by default of all."""
    return tuple(_part(session.gpu, part) for part in (parts(session) if found is None else found))


def _part(gpu: Gpu | None, part: PartKernels) -> PartLeast:
    kernels = (_of_row(gpu, row) for row in part.rows)
    return PartLeast(part.graph, part.stage, tuple(sorted(kernels, key=_slowest_first)))


def _slowest_first(each: Least) -> tuple[bool, float]:
    return each.seconds is None, -(each.seconds or 0)


def least_of(session: Session, row: KernelOfPart) -> Least:
    """Return the lower bound of one kernel."""
    return _of_row(session.gpu, row)


def _of_row(gpu: Gpu | None, row: KernelOfPart) -> Least:
    # The log of an older ctrace has fewer launches than calls; a bound on some of them would be too low for the kernel.
    launches = row.kernel.launches if len(row.kernel.launches) >= row.kernel.calls else ()
    return Least(row, tuple(bound_of(gpu, row.kernel, launch) for launch in launches))


def whole(session: Session) -> float | None:
    """Return the lower bound for one run of all graph parts in seconds, or None if not known."""
    known = [part.seconds for part in bounds(session) if part.seconds is not None]
    return sum(known) if known else None


def peaks(found: tuple[PartLeast, ...]) -> tuple[float, ...]:
    """List the peak rates behind the bounds, in operations per second, the highest first."""
    kernels = [each for part in found for each in part.kernels]
    rates = {bound.peak for each in kernels for bound in each.bounds if bound.peak}
    return tuple(sorted(rates, reverse=True))
