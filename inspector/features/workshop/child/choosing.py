"""Replace only chosen occurrences of a region: `ctrace kernels apply --place N`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.workshop.child.importing import Imported
from ctrace.inspector.features.workshop.child.passes import line_of
from ctrace.inspector.features.workshop.kernel_packages.model import Place


class Choice(Struct):
    """The occurrences to replace, counted from 1 over all graphs in the order in which they compile; empty: all."""

    wanted: frozenset[int]
    seen: int = 0
    left_out: list[Place] = field(default_factory=list)

    def check(self) -> None:
        """Refuse a number that no place has.

        Raises:
            TargetError: there are fewer places.
        """
        unknown = sorted(number for number in self.wanted if number > self.seen)
        if unknown:
            todo = f"there are places 1 to {self.seen}" if self.seen else "the region is nowhere in this model"
            raise TargetError(f"--place {unknown[0]}: there is no such place", todo)


@contextmanager
def choosing(packages: list[Imported], wanted: frozenset[int]) -> Iterator[Choice]:
    """Let the packages find only the wanted places in the block."""
    choice = Choice(wanted)
    with ExitStack() as patches:
        for package in packages if wanted else ():
            module = package.part("place")
            if module is not None and hasattr(module, "find"):
                patches.enter_context(patched(module, "find", _finding(module.find, package, choice)))
        yield choice


def _finding(original: Callable[..., Any], package: Imported, choice: Choice) -> Callable[..., Any]:
    name = next((each.name for each in package.operators()), "")

    def find(graph: Any) -> Any:
        matches, why = original(graph)
        kept = []
        for match in matches:
            choice.seen += 1
            if choice.seen in choice.wanted:
                kept.append(match)
            else:
                choice.left_out.append(_left_out(match, choice.seen, name))
        return kept, why

    return find


def _left_out(match: Any, number: int, operator: str) -> Place:
    from torch._guards import CompileContext

    nodes = list(getattr(match, "nodes", {}).values())
    line = next((found for node in reversed(nodes) if (found := line_of(node)) is not None), None)
    now = CompileContext.current_compile_id()
    graph = "?" if now is None else f"{now.frame_id}/0"
    return Place(graph, "?", line, operator, applied=False, why=f"place {number} was not chosen with --place")
