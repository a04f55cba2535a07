"""Record what torch's own guard entry lacks: the stack behind each guard, dropped guards, wrapped functions' arguments.

The tree itself is torch's entry `dynamo_cpp_guards_str` (2.11 to 2.13, guards.py:4552) with one line per leaf guard,
which names only the innermost frame, with a shortened file name. This hook records all stacks in the same order.
Sources: `get_verbose_code_parts` (guards.py:829), which writes the text of every leaf guard, and
`guard_manager_testing_hook_fn` (guards.py:202), which torch calls when a tree is finished. Both are the same in 2.11.
"""

import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from types import FrameType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.capture.guards.guard_cost import cost_of
from ctrace.inspector.capture.guards.guard_stacks import GuardStacks, Stack, frames
from ctrace.inspector.capture.guards.tree import children, is_relational
from ctrace.inspector.capture.guards.unmet import Scope
from ctrace.inspector.facts.events.guard_events import GuardsPlaced, GuardStack
from ctrace.inspector.facts.guard_facts import LeftOut


def arguments(f_locals: dict[str, Any]) -> list[str]:
    """Return the parameter names behind `args` in a frame of torch's `inner(*args, **kwargs)` around a callable.

    Source: `wrap_inline`, torch/_dynamo/external_utils.py (2.11 to 2.13), which passes them to its `fn`. Return no
    names for another frame, or if they are unknown.
    """
    import torch

    # The exact locals of that frame, so that no function of the user is taken for it.
    if set(f_locals) != {"fn", "args", "kwargs"}:
        return []
    called = f_locals["fn"]
    try:
        signature = inspect.signature(called.forward if isinstance(called, torch.nn.Module) else called)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in signature.parameters.items() if parameter.kind in kinds]


def guards(stacks: GuardStacks, *, cost: bool) -> Source:
    """Make the source that records each guard's stack, stores it in `stacks`, and with `cost` times the guards."""

    @contextmanager
    def source(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:
            when("torch._dynamo.guards", lambda module: _install(module, recorder, patches, stacks, cost=cost))
            yield

    return source


def _install(module: ModuleType, recorder: Recorder, patches: ExitStack, stacks: GuardStacks, *, cost: bool) -> None:
    original = getattr(module, "get_verbose_code_parts")  # noqa: B009 - an attribute of torch that mypy does not know

    # The last moment at which torch has a guard's text and its stack together: the tree keeps the text only.
    def worded(code_parts: Any, guard: Any, *args: Any, **kwargs: Any) -> Any:
        parts = original(code_parts, guard, *args, **kwargs)
        if guard is not None and guard.user_stack:
            stacks.add(parts, guard.user_stack)
        return parts

    objects = _Objects()

    def finished(manager: Any, f_locals: dict[str, Any], builder: Any) -> None:
        with recorder.watching("where guards come from"):
            # The frame above has what torch's `guard_filter_fn` let through.
            left_out = _left_out(builder, sys._getframe(1))
            recorder.add(_describe(manager, f_locals, stacks, left_out, objects.named(f_locals)))
        if cost:
            with recorder.watching("what guards cost"):
                recorder.add(cost_of(manager, f_locals))

    with recorder.watching("guards"):
        patches.enter_context(patched(module, "get_verbose_code_parts", worded))
        # A slot that torch's tests use: None otherwise, and called once for each tree (guards.py, 2.13).
        patches.enter_context(patched(module, "guard_manager_testing_hook_fn", finished))


def receiver_of(f_locals: dict[str, Any]) -> str:
    """Return what a method calls its object; a resume function has other names before it."""
    return "self" if "self" in f_locals else next(iter(f_locals), "")


class _Objects:
    """Assigns numbers to the modules whose methods are compiled, because these modules share the code's cache."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._next = count()

    def named(self, f_locals: dict[str, Any]) -> str | None:
        """Return the name of the module whose method a frame runs, such as `Block 2`, or None for another function."""
        import torch

        first = f_locals.get(receiver_of(f_locals))
        if not isinstance(first, torch.nn.Module):
            return None
        if first not in self._numbers:
            self._numbers[first] = next(self._next)  # not len(): a module that is gone keeps its number
        return f"{type(first).__name__} {self._numbers[first]}"


def _describe(
    manager: Any, f_locals: dict[str, Any], stacks: GuardStacks, left_out: tuple[LeftOut, ...], of_object: str | None
) -> GuardsPlaced:
    """Return the stacks, each leaf guard's stack number in the order of torch's text (-1 for none), and arguments."""
    known: dict[Stack, int] = {}
    parts = [*_printed(manager.root, set())]
    # Torch prints these after the tree.
    for guard in manager.root.get_epilogue_lambda_guards():
        parts += guard.verbose_code_parts()
    scope = Scope.of(manager, f_locals)
    stacks.name_objects(parts, scope.value)
    stacks.keep_lengths(manager, {source: len(scope.value(source)) for source in _dicts(manager.root)})
    lines = [_number(stacks.of(part), known) for part in parts]
    return GuardsPlaced(
        stacks=tuple(GuardStack(frames(stack)) for stack in known),
        lines=tuple(lines),
        arguments=tuple(arguments(f_locals)),
        left_out=left_out,
        of_object=of_object,
        receiver=receiver_of(f_locals) or "self",
    )


def _printed(node: Any, seen: set[Any]) -> Iterator[str]:
    """Yield leaf guards as `construct_manager_string` prints them (guards.py:663): a guard on several values once."""
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
    """Return the dicts that are guarded key by key, which also guards their length."""
    if hasattr(node, "get_key_value_managers") and node.get_source() not in ("L", "G"):
        yield node.get_source()
    for child in children(node):
        yield from _dicts(child)


def _number(stack: Stack | None, known: dict[Stack, int]) -> int:
    return -1 if stack is None else known.setdefault(stack, len(known))


def _left_out(builder: Any, maker: FrameType) -> tuple[LeftOut, ...]:
    """Count the guards that Dynamo requested and that were dropped, by kind and by the reason.

    `maker` is the frame of `CheckFunctionManager.__init__` (guards.py, 2.11 to 2.13): its `sorted_guards` are those
    that a `guard_filter_fn` let through.
    """
    from torch._dynamo import config

    requested = builder.check_fn_manager.output_graph.guards
    found: Counter[tuple[str, str]] = Counter()
    if config.skip_nnmodule_hook_guards:
        found[_HOOKS, _HOOKS_SWITCH] = sum(guard.create_fn_name() == _HOOKS for guard in requested)
    if maker.f_locals.get("guard_filter_fn") is not None:
        kept = set(map(id, maker.f_locals["sorted_guards"]))
        found.update((guard.create_fn_name(), "guard_filter_fn") for guard in requested if id(guard) not in kept)
    return tuple(LeftOut(kind, why, number) for (kind, why), number in found.items() if number)


_HOOKS = "EMPTY_NN_MODULE_HOOKS_DICT"
_HOOKS_SWITCH = "torch._dynamo.config.skip_nnmodule_hook_guards"
