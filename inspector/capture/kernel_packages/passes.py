"""Observe the graph passes that a package installs: the graph before and after each, and what was replaced.

Nothing here relies on what the package reports: a place counts as replaced if the pass put a call of one of the
package's operators into the graph.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.patch import patched

_SETTINGS = (
    "pre_grad_custom_pass",
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
)
"""Inductor's public settings for passes (2.11 to 2.15, _inductor/config.py)."""


class Rewrite(Struct):
    """What one run of a pass changed in one graph."""

    setting: str
    module: Any
    """The module that the graph belongs to, which holds its constants."""
    before: Any
    after: Any
    calls: tuple[str, ...]
    """Names of the nodes in `after` that call the package's operators and that `before` lacks."""
    operators: tuple[str, ...]
    """The operator of each call."""
    lines: tuple[str | None, ...]
    """The user's line of each call."""
    is_checked: bool = False


class Passes(Struct):
    """What the observed passes changed, in order."""

    rewrites: list[Rewrite] = field(default_factory=list)


def settings() -> dict[str, Any]:
    """Return the values of Inductor's settings for custom passes."""
    from torch._inductor import config

    return {name: getattr(config, name) for name in _SETTINGS if hasattr(config, name)}


def new_passes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the passes that `after` has and `before` lacks, each with its setting."""
    found = []
    for name, value in after.items():
        known = {id(each) for each in _listed(before.get(name))}
        found += [(name, each) for each in _listed(value) if id(each) not in known]
    return found


def _listed(value: Any) -> list[Any]:
    """Return the passes of a setting: none, one, or a list of them (from 2.13 on)."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


@contextmanager
def observed(passes: Iterable[tuple[str, Any]], names: Iterable[str]) -> Iterator[Passes]:
    """Observe passes in the block; `names` are the qualified names of the package's operators."""
    found = Passes()
    spaces = frozenset(names)
    with ExitStack() as patches:
        for setting, each in passes:
            kind = type(each)
            patches.enter_context(patched(kind, "__call__", _observing(kind.__call__, each, setting, spaces, found)))
        yield found


def _observing(original: Any, wanted: Any, setting: str, names: frozenset[str], found: Passes) -> Any:
    def call(self: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        if self is not wanted:
            return original(self, graph, *args, **kwargs)
        of = getattr(graph, "graph", graph)  # a pass on a module gets the module
        before = copy.deepcopy(of)
        result = original(self, graph, *args, **kwargs)
        found.rewrites.append(_rewrite(setting, of, before, names))
        return result

    return call


def _rewrite(setting: str, graph: Any, before: Any, names: frozenset[str]) -> Rewrite:
    known = {node.name for node in before.nodes}
    left = {node.name for node in graph.nodes}
    calls = [node for node in graph.nodes if node.name not in known and qualified(node) in names]
    removed = [node for node in before.nodes if node.name not in left]
    return Rewrite(
        setting=setting,
        module=graph.owning_module,
        before=before,
        after=copy.deepcopy(graph),
        calls=tuple(node.name for node in calls),
        operators=tuple(qualified(node) for node in calls),
        lines=tuple(line_of(node) or _line_of_removed(removed) for node in calls),
    )


def qualified(node: Any) -> str:
    """Return the operator that a node calls, such as `my_ops::softmax`; empty for anything else."""
    target = node.target
    schema = getattr(target, "_schema", None)
    return str(schema.name) if node.op == "call_function" and schema is not None else ""


def line_of(node: Any) -> str | None:
    """Return the innermost user's line of a node as `file:line`."""
    from ctrace.inspector.source.stacks import user_lines

    stack = node.meta.get("stack_trace") or ""
    found = user_lines([stack], _prefixes()) if stack else ()
    return str(found[-1]) if found else None


@cache
def _prefixes() -> dict[str, str]:
    """Return the folders of libraries and of torch, by which frames are told apart."""
    import torch

    from ctrace.inspector.capture.core.environment import library_prefixes

    return {**library_prefixes(), str(Path(torch.__file__).parent): "torch"}


def _line_of_removed(removed: list[Any]) -> str | None:
    """Return the line of the last removed node that has one: the region's result."""
    return next((line for line in map(line_of, reversed(removed)) if line is not None), None)
