"""Record why a function was recompiled: the guards that the new call fails, with expected and actual values.

Source: `convert_frame.get_and_maybe_log_recompilation_reasons` (2.13, guards.py:5344), called at the start of every
recompilation with all cache entries, newest first, and the new call's locals. Failed guards that are causes are
separated from those that only follow from other failed guards.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.eager_backend import other_backend
from ctrace.inspector.capture.dynamo.guard_stacks import GuardStacks, frames
from ctrace.inspector.capture.dynamo.unmet import Unmet, unmet_guards
from ctrace.inspector.facts.guard_facts import EntryHeld, GuardsFailed, UnmetGuard

# A call that differs in everything, such as one under another mode, may fail thousands.
_MOST = 60
"""How many failed guards of an entry are recorded; all are counted."""
_RESUMED = "torch_dynamo_resume_in_"
"""Prefix of resume functions, the rest of a function after a graph break (_dynamo/resume_execution.py, 2.13)."""


def recompiles(stacks: GuardStacks) -> Hook:
    """Make the hook that records each cache entry's failed guards, with their stacks, at every recompilation."""

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        with ExitStack() as patches:
            when("torch._dynamo", lambda _dynamo: _install(recorder, patches, stacks))
            yield

    return hook


def _install(recorder: Recorder, patches: ExitStack, stacks: GuardStacks) -> None:
    from torch._dynamo import convert_frame

    name = "get_and_maybe_log_recompilation_reasons"
    original = getattr(convert_frame, name)

    def reasons(cache_entries: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        with recorder.watching("the guard failures behind a recompilation"):
            if args:
                backend = args[0]
            else:
                backend = kwargs.get("backend")
            recorder.add(_described(cache_entries, frame, backend, stacks, recorder))
        # After ours: with `error_on_recompile`, torch raises here.
        return original(cache_entries, frame, *args, **kwargs)

    # convert_frame.py imports the function by name, so that a patch of guards.py would reach no call.
    with recorder.watching("recompiles"):
        patches.enter_context(patched(convert_frame, name, reasons))


def _described(cache_entries: Any, frame: Any, backend: Any, stacks: GuardStacks, recorder: Recorder) -> GuardsFailed:
    began = time.perf_counter()
    entries = tuple(_compared(entry, frame, backend, stacks, recorder) for entry in _listed(cache_entries))
    seconds = time.perf_counter() - began
    return GuardsFailed(entries, frame.f_code.co_freevars, seconds)


def _listed(entries: Any) -> list[Any]:
    """Return all cache entries: a list since 2.13, before that the head of a linked list (2.11, guards.py:4721)."""
    if isinstance(entries, list):
        return entries
    listed = []
    while entries is not None:
        listed.append(entries)
        entries = entries.next
    return listed


def _compared(entry: Any, frame: Any, backend: Any, stacks: GuardStacks, recorder: Recorder) -> EntryHeld:
    """Check the call against one entry; an entry whose guarded object is gone has only a reason (guards.py:4998)."""
    manager = entry.guard_manager
    if hasattr(manager, "invalidation_reason"):
        return EntryHeld(str(entry.compile_id), (), invalid=str(manager.invalidation_reason))
    unmet, skipped = unmet_guards(manager, frame.f_locals, stacks.lengths_of(manager))
    if skipped:
        if len(skipped) > 1:
            what = f"{skipped[0]} and {len(skipped) - 1} more"
        else:
            what = skipped[0]
        recorder.problem(f"at a recompilation, {what} could not be evaluated: differences there are not shown")
    found, following = divided(unmet, resumed=frame.f_code.co_name.startswith(_RESUMED))
    if not found:  # as torch does: in 2.11, the backends of an entry and a call are never the same object
        found = other_backend(entry.backend, backend)
    return EntryHeld(
        id=str(entry.compile_id),
        unmet=tuple(_guard(each, stacks) for each in found[:_MOST]),
        number=len(found),
        following=tuple(each.guard for each in following[:_MOST]),
    )


def _guard(unmet: Unmet, stacks: GuardStacks) -> UnmetGuard:
    hint = unmet.verbose.rpartition(" (HINT: ")
    return UnmetGuard(
        text=unmet.guard,
        now=unmet.now,
        was=unmet.was or stacks.object_of(unmet.guard),
        stack=frames(stacks.of(unmet.verbose)),
        hint=hint[2] if hint[1] else "",
    )


_Rule = Callable[[Unmet], bool]
# e.g. `tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, ...), actual DispatchKeySet(CPU, ...)`
_KEYS = re.compile(
    r"tensor '.*' dispatch key set mismatch\. expected DispatchKeySet\((.*)\), actual DispatchKeySet\((.*)\)"
)
# e.g. `L['x'].size()[0] == L['y'].size()[0]`
_EQUAL = re.compile(r"(?P<one>\S+\.size\(\)\[\d+\]) == (?P<other>\S+\.size\(\)\[\d+\])$")
# e.g. `2 <= L['x'].size()[0] <= 64`: 0 and 1 have graphs of their own.
_LEAST = re.compile(r"2 <= (?P<size>\S+\.size\(\)\[\d+\])(?: <= \d+)?$")
# e.g. `not ___dict_contains('k', L['d'])`, `set.__contains__(L['s'], 3)`, `L['s'] == {1, 2}`
_IN_DICT = re.compile(r"(?:not )?___dict_contains\(.+, (?P<name>[LG]\[.*)\)$")
_IN_SET = re.compile(r"(?:not )?set\.__contains__\((?P<name>[LG]\[.*), .+\)$")
_IS_SET = re.compile(r"(?P<name>\S+) == (?:frozenset\()?[{(]")


def divided(found: list[Unmet], resumed: bool = False) -> tuple[list[Unmet], list[Unmet]]:
    """Divide failed guards into causes and consequences.

    `resumed` means that the function resumes after a graph break, so its inputs are results of the part before.
    """
    # Rules look at all failed guards first, since a consequence may come before its cause in the tree.
    rules = [*_of_modes(found), *_of_transforms(found), *_of_sizes(found), *_of_containers(found)]
    if resumed:
        rules += _of_results(found)
    following = [unmet for unmet in found if any(rule(unmet) for rule in rules)]
    return [unmet for unmet in found if unmet not in following], following


def _of_modes(found: list[Unmet]) -> Iterator[_Rule]:
    """Yield rules for autocast, inference mode and a default device: they make guards on all tensors or calls fail."""
    guards = [unmet.guard for unmet in found]
    if any(guard.startswith("GLOBAL_STATE changed: autocast") for guard in guards):
        # `differences` ignores the keys of autocast, finds nothing else, and leaves the guard whole.
        yield lambda unmet: unmet.guard.startswith("check_tensor(")
    if any(guard.startswith("GLOBAL_STATE changed: grad_mode") for guard in guards):
        yield _is_of_inference
    if any("utils_device.CURRENT_DEVICE" in guard for guard in guards):
        yield lambda unmet: unmet.guard.startswith("___check_torch_function_mode_stack") and _device_mode_only(unmet)


def _of_results(found: list[Unmet]) -> Iterator[_Rule]:
    """Yield a rule for results of the part before a graph break: grad mode decides whether they require gradients."""
    # Only for resume functions: their tensors were made under the mode of the part before.
    change = next((match for unmet in found if (match := _GRAD_MODE.match(unmet.guard))), None)
    if change is not None:
        ends = f"requires_grad mismatch. expected {change['was']}, actual {change['now']}"
        yield lambda unmet: _LOCAL.match(unmet.guard) is not None and unmet.guard.endswith(ends)


def _of_transforms(found: list[Unmet]) -> Iterator[_Rule]:
    """Yield rules for transforms: vmap hides a dimension, and torch.func.grad makes a tensor require gradients."""
    for unmet in found:
        match = _KEYS.match(unmet.guard)
        if match is None:
            continue
        changed = set.symmetric_difference(*({key.strip() for key in keys.split(",")} for keys in match.groups()))
        for key, what in _HIDDEN.items():
            if key in changed:
                yield partial(_begins, f"{unmet.guard.partition(' dispatch key set')[0]} {what} mismatch")


def _begins(text: str, unmet: Unmet) -> bool:
    return unmet.guard.startswith(text)


_HIDDEN = {"FuncTorchBatched": "rank", "FuncTorchGradWrapper": "requires_grad"}
_GRAD_MODE = re.compile(r"GLOBAL_STATE changed: grad_mode\. expected (?P<was>True|False), actual (?P<now>True|False)")
_LOCAL = re.compile(r"tensor '(?:L\['(?!self')\w+'\]|(?!self\b)\w+)' ")
"""A tensor that is a local of the function, not an attribute of an object."""


def _is_of_inference(unmet: Unmet) -> bool:
    """Whether a tensor differs only by what inference mode removes, in this call or in the compiled one."""
    import torch

    match = _KEYS.match(unmet.guard)
    if match is None:
        return False
    before, now = ({key.strip() for key in keys.split(",")} for keys in match.groups())
    lost, got = before - now, now - before
    # Inference mode takes keys away: from this call if it is on now, from the compiled one if it was on then.
    fewer, more = (lost, got) if torch.is_inference_mode_enabled() else (got, lost)
    return not more and all(key.startswith(("Autograd", "ADInplaceOrView")) for key in fewer)


def _device_mode_only(unmet: Unmet) -> bool:
    """Whether the default-device mode is the only mode that was entered or left."""
    before, now = (set((names or "").split(", ")) - {"none", "DeviceContext"} for names in (unmet.was, unmet.now))
    return before == now


def _of_sizes(found: list[Unmet]) -> Iterator[_Rule]:
    """Yield rules for a size of 0 or 1, which gets its own graph: guards that compare it with others follow."""
    apart = {match["size"] for unmet in found if unmet.now in ("0", "1") and (match := _LEAST.match(unmet.guard))}

    def is_equality(unmet: Unmet) -> bool:
        match = _EQUAL.match(unmet.guard)
        return match is not None and not apart.isdisjoint(match.groups())

    if apart:
        yield is_equality


def _of_containers(found: list[Unmet]) -> Iterator[_Rule]:
    """Yield rules for containers: a dict with another key has another length, and another set has other items."""
    dicts = {match["name"] for unmet in found if (match := _IN_DICT.match(unmet.guard))}
    sets = {match["name"] for unmet in found if (match := _IS_SET.match(unmet.guard))}
    # The length of a dict is guarded as `not L['d']` or as `len(L['d']) == 2`.
    lengths = {text for name in dicts for text in (f"not {name}", f"len({name})")}

    def is_length(unmet: Unmet) -> bool:
        return unmet.guard.partition(" == ")[0].partition(" != ")[0] in lengths

    def is_item(unmet: Unmet) -> bool:
        match = _IN_SET.match(unmet.guard)
        return match is not None and match["name"] in sets

    yield is_length
    yield is_item
