"""Read from a package's pass where its region was looked for and did not fit, and which node differs."""

from collections.abc import Iterator, Sequence
from typing import Any

from ctrace.inspector.features.workshop.child.importing import Imported
from ctrace.inspector.features.workshop.child.sides import Part
from ctrace.inspector.features.workshop.kernel_packages.model import Place


def misfits(packages: Sequence[tuple[Imported, Any]], parts: Sequence[Part], applied: Sequence[Place]) -> list[Place]:
    """Return, for each package that was applied nowhere, the graphs where it could have been, with the reason.

    The pass that `install()` returns keeps in `found`, for each graph, how many places it replaced, and what differs
    where it replaced none. A graph without the region is no misfit if the region was found in another graph.
    """
    done = {each.operator for each in applied}
    places = []
    for package, handle in packages:
        names = [each.name for each in package.operators()]
        if done.isdisjoint(names):
            places += list(_nowhere(package, handle, parts, ", ".join(names)))
    return places


def left_to_inductor(
    packages: Sequence[tuple[Imported, Any]], parts: Sequence[Part], places: Sequence[Place]
) -> Iterator[str]:
    """Say which graphs of a function keep the kernel that Inductor made for them, though another graph has the package.

    A function has several graphs if its sizes change; a package is made from one of them.
    """
    for package, handle in packages:
        names = [each.name for each in package.operators()]
        applied = {(_frame(each.graph), each.stage) for each in places if each.applied and each.operator in names}
        for part, (count, why) in zip(parts, _found(handle), strict=False):
            if not count and why and (_frame(part.graph), part.stage) in applied:
                yield f"Graph {part.graph} ({part.stage}) keeps the kernel that Inductor made for it: {why}."


def _frame(graph: str) -> str:
    return graph.partition("/")[0]


def _nowhere(package: Imported, handle: Any, parts: Sequence[Part], operator: str) -> list[Place]:
    wanted = str(package.package.facts.get("stage"))
    reasons = [(part, why) for part, (count, why) in zip(parts, _found(handle), strict=False) if not count]
    line = _line(package.package.facts.get("lines"))
    same = [(part, why) for part, why in reasons if (part.stage == "backward") == (wanted == "backward")]
    return [
        Place(part.graph, part.stage, line, operator, applied=False, why=why or "the region is not in this graph")
        for part, why in same or reasons
    ]


def _line(lines: Any) -> str | None:
    """Return the line that the kernel came from, as its package says."""
    return str(lines[-1]) if isinstance(lines, list) and lines else None


def _found(handle: Any) -> list[tuple[int, str]]:
    found = getattr(handle, "found", ())
    return [(int(each[0]), str(each[1])) for each in found if isinstance(each, list | tuple) and len(each) >= 2]
