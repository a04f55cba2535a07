"""What torch's own guard entry leaves out: whose line made each guard, and which guards were made without effect.

The tree itself is torch's entry `dynamo_cpp_guards_str` (2.11 to 2.13, guards.py:4552), with one line a leaf guard;
each names the innermost frame only, in a shortened file name. We keep the stack of each, in the same order.
Sources: `get_verbose_code_parts` (guards.py:829), which words every leaf guard, and `guard_manager_testing_hook_fn`
(guards.py:202), called once a tree is finished. Both are the same in 2.11.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ctrace.inspector.capture.guardcost import cost_of
from ctrace.inspector.capture.guardtree import children, is_relational
from ctrace.inspector.capture.patch import patched
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.sources import Source, When
from ctrace.inspector.capture.stacks import GuardStacks, Stack, frames
from ctrace.inspector.capture.unmet import Scope
from ctrace.inspector.capture.wrapped import arguments


def guards(stacks: GuardStacks, *, cost: bool) -> Source:
    """Make the source that keeps in `stacks` where guards come from, records it, and with `cost` how long they take."""

    @contextmanager
    def source(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:
            when("torch._dynamo.guards", lambda module: _install(module, recorder, patches, stacks, cost=cost))
            yield

    return source


def _install(module: ModuleType, recorder: Recorder, patches: ExitStack, stacks: GuardStacks, *, cost: bool) -> None:
    original = getattr(module, "get_verbose_code_parts")  # noqa: B009 - torch's, and mypy need not know it

    def worded(code_parts: Any, guard: Any, *args: Any, **kwargs: Any) -> Any:
        parts = original(code_parts, guard, *args, **kwargs)
        if guard is not None and guard.user_stack:
            stacks.add(parts, guard.user_stack)
        return parts

    objects = _Objects()

    def finished(manager: Any, f_locals: dict[str, Any], builder: Any) -> None:
        with recorder.watching("where guards come from"):
            described = _describe(manager, f_locals, stacks, builder)
            recorder.record("guards", {**described, "object": objects.named(f_locals)})
        if cost:
            with recorder.watching("what guards cost"):
                recorder.record("guard_cost", cost_of(manager, f_locals))

    with recorder.watching("guards"):
        patches.enter_context(patched(module, "get_verbose_code_parts", worded))
        patches.enter_context(patched(module, "guard_manager_testing_hook_fn", finished))


class _Objects:
    """Numbers the modules whose methods are compiled: they share one cache, that of the code."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def named(self, f_locals: dict[str, Any]) -> str | None:
        """Name the module that a frame is a method of, as `Block 2`; None: it is none."""
        import torch

        first = next(iter(f_locals.values()), None)
        if not isinstance(first, torch.nn.Module):
            return None
        number = self._numbers.setdefault(first, len(self._numbers))
        return f"{type(first).__name__} {number}"


def _describe(manager: Any, f_locals: dict[str, Any], stacks: GuardStacks, builder: Any) -> dict[str, Any]:
    """Number the stacks of all leaf guards in the order of torch's text; -1 for one without a stack."""
    known: dict[Stack, int] = {}
    parts = [*_printed(manager.root, set())]
    for guard in manager.root.get_epilogue_lambda_guards():
        parts += guard.verbose_code_parts()
    scope = Scope.of(manager, f_locals)
    stacks.name_objects(parts, scope.value)
    stacks.keep_lengths(manager, {source: len(scope.value(source)) for source in _dicts(manager.root)})
    lines = [_number(stacks.of(part), known) for part in parts]
    return {
        "stacks": [{"frames": frames(stack)} for stack in known],
        "lines": lines,
        "without_effect": _without_effect(builder),
        "arguments": arguments(f_locals),
    }


def _printed(node: Any, seen: set[Any]) -> Iterator[str]:
    """Go through leaf guards as `construct_manager_string` prints them (guards.py:663): a relational one only once."""
    for guard in node.get_leaf_guards():
        if is_relational(guard):
            if guard in seen:
                yield ""
                continue
            seen.add(guard)
        yield from guard.verbose_code_parts()
    for child in children(node):
        yield from _printed(child, seen)


def _dicts(node: Any) -> Iterator[str]:
    """Name the dicts that are guarded key by key, and with that for their length."""
    if hasattr(node, "get_key_value_managers") and node.get_source() not in ("L", "G"):
        yield node.get_source()
    for child in children(node):
        yield from _dicts(child)


def _number(stack: Stack | None, known: dict[Stack, int]) -> int:
    return -1 if stack is None else known.setdefault(stack, len(known))


_BY_OTHER_MEANS = frozenset(
    (
        "SHAPE_ENV", "DETERMINISTIC_ALGORITHMS", "GRAD_MODE", "GLOBAL_STATE", "TORCH_FUNCTION_STATE", "CLOSURE_MATCH",
        "NOT_PRESENT_IN_GENERIC_DICT", "DICT_NOT_CONTAINS", "DICT_CONTAINS", "HASATTR", "DEFAULT_DEVICE",
        "TENSOR_MATCH", "AUTOGRAD_SAVED_TENSORS_HOOKS", "MAPPING_KEYS_CHECK", "DICT_KEYS_MATCH", "DUAL_LEVEL",
        "FUNCTORCH_STACK_MATCH", "FSDP_TRAINING_STATE", "GLOBAL_STATE_GUARD", "NN_MODULE", "BUILTIN_MATCH", "GRAD",
    )
)  # fmt: skip
"""Kinds that leave no code of their own although they are in the tree, as another guard or as part of one."""


def _without_effect(builder: Any) -> list[dict[str, Any]]:
    """Count by kind the guards that Dynamo asked for and that left nothing to check.

    `guard.code_list` is what a guard put into the tree (`_set_guard_export_info`, guards.py, 2.11 to 2.13). Hooks of
    modules are the common case: `torch._dynamo.config.skip_nnmodule_hook_guards` is on by default.
    """
    asked = builder.check_fn_manager.output_graph.guards
    names = Counter(guard.create_fn_name() for guard in asked if not guard.code_list)
    return [{"kind": kind, "number": number} for kind, number in names.items() if kind not in _BY_OTHER_MEANS]
