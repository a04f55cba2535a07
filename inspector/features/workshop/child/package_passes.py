"""Observe the graph passes that a package installs: the graph before and after each, and what was replaced.

Nothing here relies on what the package reports: a place counts as replaced if the pass put a call of one of the
package's operators into the graph, and as launched directly if the graph then launches the operator's kernels instead.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.node_lines import line_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.features.workshop.child.importing import Imported, Operator, operators_of
from ctrace.inspector.features.workshop.child.recorded_launches import function_of

_SETTINGS = (
    "pre_grad_custom_pass",
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
)
"""Inductor's public settings for passes (2.11 to 2.15, _inductor/config.py)."""


class PassRewrite(Struct):
    """What one run of a pass changed in one graph."""

    setting: str
    module: Any
    """The module that the graph belongs to, which holds its constants."""
    before: Any
    after: Any
    """With calls of the operators; what is launched directly is inlined after this copy was made."""
    calls: tuple[str, ...]
    """Names of the nodes in `after` that call the package's operators and that `before` lacks."""
    operators: tuple[str, ...]
    """The operator of each call."""
    lines: tuple[str | None, ...]
    """The user's line of each call."""
    called: tuple[str | None, ...]
    """Of each call, why compiled code calls the operator; None: it launches the kernels directly."""


class Passes(Struct):
    """What the observed passes changed, in order."""

    rewrites: list[PassRewrite] = field(default_factory=list)


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
def observed(passes: Iterable[tuple[str, Any]], packages: Iterable[Imported]) -> Iterator[Passes]:
    """Observe passes in the block, which replace regions by operators of the packages."""
    found = Passes()
    used = list(packages)
    inlining = _Inlining(operators_of(used))
    with ExitStack() as patches:
        for each in used:
            module = each.part("place")
            if module is not None and hasattr(module, "inline"):
                patches.enter_context(patched(module, "inline", inlining.putting_off(module.inline)))
        for setting, each in passes:
            kind = type(each)
            patches.enter_context(patched(kind, "__call__", _observing(kind.__call__, each, setting, inlining, found)))
        yield found


class _Inlining:
    """Puts off what a package does last, until the graph with calls of its operators is copied."""

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        self.operators = operators
        self._waiting: list[tuple[Callable[..., str], Any, Any]] = []

    def putting_off(self, original: Callable[..., str]) -> Callable[..., str]:
        """Return what takes the place of a package's `inline`."""

        def inline(graph: Any, call: Any) -> str:
            self._waiting.append((original, graph, call))
            return ""

        return inline

    def done(self) -> dict[str, str | None]:
        """Inline; return, for each call by name, why it stays, or None."""
        found: dict[str, str | None] = {}
        while self._waiting:
            original, graph, call = self._waiting.pop(0)
            name, operator = call.name, self.operators.get(qualified(call))
            known = set(graph.nodes)
            why = original(graph, call)
            new = [each for each in graph.nodes if each not in known]
            is_direct = operator is not None and _launches(new, operator)
            found[name] = None if is_direct else why or "the package put no launch of its kernels in the place"
        return found


def _launches(nodes: Iterable[Any], operator: Operator) -> bool:
    """Whether some nodes launch each kernel of an operator."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    indices = [each.kwargs["kernel_idx"] for each in nodes if "triton_kernel_wrapper" in str(each.target)]
    launched = {id(function_of(kernel_side_table.get_kernel(each))) for each in indices}
    return bool(operator.kernels) and launched >= {id(function_of(each)) for each in operator.kernels}


def _observing(original: Any, wanted: Any, setting: str, inlining: _Inlining, found: Passes) -> Any:
    def call(self: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        if self is not wanted:
            return original(self, graph, *args, **kwargs)
        of = getattr(graph, "graph", graph)  # a pass on a module gets the module
        before = copy.deepcopy(of)
        result = original(self, graph, *args, **kwargs)
        after = copy.deepcopy(of)
        found.rewrites.append(_rewrite(setting, of.owning_module, before, after, inlining))
        return result

    return call


_OLD = "the package is of an older ctrace; eject the kernel again into an empty folder"


def _rewrite(setting: str, module: Any, before: Any, after: Any, inlining: _Inlining) -> PassRewrite:
    known = {node.name for node in before.nodes}
    left = {node.name for node in after.nodes}
    calls = [node for node in after.nodes if node.name not in known and qualified(node) in inlining.operators]
    removed = [node for node in before.nodes if node.name not in left]
    called = inlining.done()
    return PassRewrite(
        setting=setting,
        module=module,
        before=before,
        after=after,
        calls=tuple(node.name for node in calls),
        operators=tuple(qualified(node) for node in calls),
        lines=tuple(line_of(node) or _line_of_removed(removed) for node in calls),
        called=tuple(called.get(node.name, _OLD) for node in calls),
    )


def qualified(node: Any) -> str:
    """Return the operator that a node calls, such as `my_ops::softmax`; empty for anything else."""
    target = node.target
    schema = getattr(target, "_schema", None)
    if node.op == "call_function" and schema is not None:
        return str(schema.name)
    return ""


def _line_of_removed(removed: list[Any]) -> str | None:
    """Return the line of the last removed node that has one: the region's result."""
    return next((line for line in map(line_of, reversed(removed)) if line is not None), None)
