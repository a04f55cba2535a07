"""Compare the kernels of one program for several GPUs, matched by graph part, name and position."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.facts.kernel_facts import Kernel, Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import Basis
from ctrace.inspector.findings.kernels.bounds import Least, bounds
from ctrace.inspector.findings.kernels.built_view import Resources, resources
from ctrace.inspector.grouping import grouped

_OF_DEVICE = re.compile(r"DeviceProperties\([^()]*\)|'backend_hash': '[0-9A-Fa-f]*'")
"""GPU properties in a kernel's source, which the comparison ignores (2.11 to 2.13, _inductor/runtime/hints.py)."""
_NUMBER = re.compile(r"_\d+$")

Slot = tuple[str, int]
"""A kernel's name, and its position among the kernels with that name."""


class SourceComparison(StrEnum):
    """How the sources of one kernel compare across GPUs."""

    SAME = "same"
    """The sources are equal except for GPU properties."""
    DIFFERS = "differs"
    LIBRARY = "library"
    """Library kernels, whose source no run has."""
    NOT_EVERYWHERE = "not_everywhere"
    """At least one GPU lacks the kernel."""
    NOT_KNOWN = "not_known"


class One(Struct, frozen=True):
    """A kernel on one GPU."""

    JSON: ClassVar[str] = (
        "basis=BASIS bases=BASES name=kernel.name calls=kernel.calls least_seconds=least configurations=resources"
    )
    BASIS: ClassVar[Basis] = Basis.EMITTED
    BASES: ClassVar[dict[str, Basis]] = {"least_seconds": Basis.COMPUTED}
    kernel: Kernel
    resources: tuple[Resources, ...]
    """One for each configuration that torch launches or may launch; empty if not known."""
    least: float | None
    """The lower bound on the time of all its calls, in seconds; None if not known."""


class ComparedKernel(Struct, frozen=True):
    """A kernel on all GPUs; `on` is keyed by GPU and omits GPUs that lack the kernel."""

    name: str
    """Its name on the first GPU that has it."""
    code: SourceComparison
    on: Mapping[str, One]


class LeastOnGpus(Struct, frozen=True):
    """How long a graph part takes at least."""

    JSON: ClassVar[str] = "basis=BASIS seconds"
    BASIS: ClassVar[Basis] = Basis.COMPUTED
    seconds: Mapping[str, float | None]
    """The lower bound in seconds, keyed by GPU; None if not known. GPUs without the part are omitted."""


class ComparedPart(Struct, frozen=True):
    """A graph part on all GPUs."""

    graph: str
    stage: Stage
    least: LeastOnGpus
    kernels: tuple[ComparedKernel, ...]

    @property
    def different(self) -> tuple[ComparedKernel, ...]:
        """The kernels whose code differs between GPUs, or that some GPUs lack."""
        return tuple(
            each for each in self.kernels if each.code in (SourceComparison.DIFFERS, SourceComparison.NOT_EVERYWHERE)
        )


def side_by_side(sessions: Mapping[str, Session]) -> tuple[ComparedPart, ...]:
    """Compare the generated code for several GPUs, graph part by graph part, in torch's order."""
    by_target = {name: _of_session(session) for name, session in sessions.items()}
    keys = dict.fromkeys(key for parts in by_target.values() for key in parts)
    return tuple(_part(key, {name: parts[key] for name, parts in by_target.items() if key in parts}, len(sessions))
                 for key in keys)  # fmt: skip


_Part = tuple[list[One], float | None]


def _of_session(session: Session) -> dict[tuple[str, Stage], _Part]:
    """Return the kernels of each graph part in order, and the part's lower bound."""
    by_kernel = grouped(resources(session), lambda each: (each.built.graph, each.built.stage, each.built.kernel))
    leasts = bounds(session)
    # By identity: a kernel's launches hold mappings, so it cannot be a key.
    of: dict[int, Least] = {id(each.row.kernel): each for part in leasts for each in part.kernels}
    whole = {(part.graph, part.stage): part.seconds for part in leasts}
    found: dict[tuple[str, Stage], _Part] = {key: ([], seconds) for key, seconds in whole.items()}
    for kernel in session.kernels:
        configurations = by_kernel.get((kernel.graph, kernel.stage, kernel.name), [])
        one = One(kernel, tuple(configurations), of[id(kernel)].seconds)
        found[kernel.graph, kernel.stage][0].append(one)
    return found


def _part(key: tuple[str, Stage], on: Mapping[str, _Part], everywhere: int) -> ComparedPart:
    placed = _placed({name: kernels for name, (kernels, _) in on.items()})
    slots = dict.fromkeys(slot for kernels in placed.values() for slot in kernels)
    rows = ({name: kernels[slot] for name, kernels in placed.items() if slot in kernels} for slot in slots)
    compared = (ComparedKernel(next(iter(row.values())).kernel.name, _code(row, everywhere), row) for row in rows)
    least = LeastOnGpus({name: seconds for name, (_, seconds) in on.items()})
    return ComparedPart(*key, least, tuple(compared))


def _placed(on: Mapping[str, list[One]]) -> dict[str, dict[Slot, One]]:
    """Match kernels across GPUs by name; match the rest in order by the name without its number."""
    names = [{one.kernel.name for one in kernels} for kernels in on.values()]
    common = set()
    if names:
        common = set.intersection(*names)
    return {name: _slots(kernels, common) for name, kernels in on.items()}


def _slots(kernels: Iterable[One], common: set[str]) -> dict[Slot, One]:
    seen: Counter[str] = Counter()
    slots: dict[Slot, One] = {}
    for one in kernels:
        name = one.kernel.name
        if name in common:
            called = name
        else:
            # Inductor numbers kernels in order: one kernel more on a GPU shifts the numbers of all that follow.
            called = f"{_NUMBER.sub('', name)}_*"
        slots[called, seen[called]] = one
        seen[called] += 1
    return slots


def _code(row: Mapping[str, One], everywhere: int) -> SourceComparison:
    kernels = [one.kernel for one in row.values()]
    if len(kernels) < everywhere:
        return SourceComparison.NOT_EVERYWHERE
    # A library kernel has no source in any run, which would read as "not known".
    if all(kernel.language == "external" for kernel in kernels):
        return SourceComparison.LIBRARY
    if not all(kernel.source for kernel in kernels):
        return SourceComparison.NOT_KNOWN
    if len({_without_device(kernel) for kernel in kernels}) == 1:
        return SourceComparison.SAME
    return SourceComparison.DIFFERS


def _without_device(kernel: Kernel) -> str:
    # The function in a source has the kernel's name, with that shifting number.
    return _OF_DEVICE.sub("", kernel.source).replace(kernel.name, "KERNEL")
