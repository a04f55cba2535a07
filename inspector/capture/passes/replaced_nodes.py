"""Where nodes come from that a pattern of Inductor puts in place of others.

Torch gives such a node the stack trace of what it replaces only if that is a single node (2.13,
_inductor/pattern_matcher.py: `Match.replace_by_example`). All others have none, such as an attention written by hand,
which in training is replaced by a whole graph of its own: no kernel of it would have a line.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.node_lines import REPLACED, stack_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import When

_ENTRIES = ("GraphPatternEntry", "ReplacementPatternEntry")
"""The third kind, a lowering, copies the trace itself."""


@contextmanager
def replaced_nodes(recorder: Recorder, when: When) -> Iterator[None]:
    """Note the lines of replaced nodes in those that replace them."""
    with ExitStack() as patches:

        def install(_module: ModuleType) -> None:
            with recorder.watching("lines of replaced nodes"):
                patches.enter_context(lines_of_replacements(lambda: recorder.watching("lines of replaced nodes")))

        when("torch._inductor.pattern_matcher", install)
        yield


@contextmanager
def lines_of_replacements(watching: Callable[[], Any] = ExitStack) -> Iterator[None]:
    """Note them in the block; what fails in `watching()` is not noted."""
    from torch._inductor import pattern_matcher

    with ExitStack() as patches:
        for name in _ENTRIES:
            entry = getattr(pattern_matcher, name)
            patches.enter_context(patched(entry, "apply", _noting(entry.apply, watching)))
        yield


def _noting(original: Any, watching: Callable[[], Any]) -> Any:
    @wraps(original)
    def apply(self: Any, match: Any, graph: Any, node: Any) -> Any:
        made: list[Any] = []
        stacks: list[tuple[tuple[Any, ...], str]] = []
        with watching():
            stacks = [(_key(each), stack) for each in sorted(match.nodes) if (stack := stack_of(each))]
        module = graph.owning_module
        if not stacks or module is None:
            return original(self, match, graph, node)
        with ExitStack() as hooks:
            with watching():
                # 2.13 and 2.14, fx/graph_module.py: `Graph.create_node` calls these hooks of the graph's module.
                module._register_create_node_hook(made.append)
                hooks.callback(module._unregister_create_node_hook, made.append)
            result = original(self, match, graph, node)
        with watching():
            _note(made, stacks)
        return result

    return apply


def _note(made: Sequence[Any], stacks: Sequence[tuple[tuple[Any, ...], str]]) -> None:
    """Note in each new node the trace of the equal operator that it replaces.

    Any other gets the trace of the next node that has one: it is computed for that node, or is part of the same result.
    """
    waiting: dict[tuple[Any, ...], list[str]] = {}
    for key, stack in stacks:
        waiting.setdefault(key, []).append(stack)
    new = [each for each in made if each.op == "call_function" and not stack_of(each)]
    found = [(each, _next(waiting.get(_key(each)))) for each in new]
    following = stacks[-1][1]
    for each, stack in reversed(found):
        following = each.meta[REPLACED] = stack or following


def _next(waiting: list[str] | None) -> str:
    """Return the first trace that no node took; the last one is for all that follow."""
    if not waiting:
        return ""
    return waiting.pop(0) if len(waiting) > 1 else waiting[0]


def _key(node: Any) -> tuple[Any, ...]:
    """Return what tells operators apart; comparing symbolic sizes would add a guard, their text adds none."""
    return node.target, str(getattr(node.meta.get("val"), "shape", ""))
