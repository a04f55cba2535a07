"""Compare what two runs of a proof observed: equal data means equal calls.

An entry of an observation is one call: what it raises, returns, changes, prints and draws, as digests that are equal if
and only if the values are. `differences` pairs the entries of two runs by their names and numbers, and compares one
kind of data after the other (`KINDS`). How a difference is described is for a reader who knows the model, and has never
seen a digest. `checks_of` makes one check of each kind.

What follows from another difference is none of its own: a call that raises has no result, and a probe that raises is
called again. Two differences are excused: torch.cond says in its own words that an op of a side raises (`_is_traced`),
and some operators of torch refuse every subclass of Tensor (`is_excused`).
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, to_builtins

from ctrace.inspector.facts.trial import PENALTY, Entry, Observed, Sides
from ctrace.inspector.features.fix.repairs.repair_result import ProofCheck

KINDS = (
    "raised",
    "outputs",
    "gradients",
    "stored",
    "inputs",
    "state",
    "memory",
    "needed",
    "printed",
    "logged",
    "warned",
    "random",
)
"""Fields of an entry, the most important first."""
KEPT = "no statement of the program changes, only an option of torch.compile"
_CHECKS = {
    "raised": "exceptions_equal",
    "outputs": "outputs_equal",
    "gradients": "gradients_equal",
    "stored": "stored_gradients_equal",
    "inputs": "inputs_equal",
    "state": "state_equal",
    "memory": "memory_equal",
    "needed": "backward_needs_equal",
    "printed": "prints_equal",
    "logged": "logs_equal",
    "warned": "warnings_equal",
    "random": "random_equal",
}
_WORDS = {
    "raised": "raises a different exception",
    "outputs": "returns a different result",
    "gradients": "has different gradients",
    "stored": "leaves tensors with different gradients in the state",
    "inputs": "changes its inputs differently",
    "state": "leaves different state behind",
    "memory": "lets different tensors share memory",
    "needed": "needs more for a backward pass",
    "printed": "prints something else",
    "logged": "logs something else",
    "warned": "warns differently",
    "random": "draws different random numbers",
}
_OF_BACKWARD = ("gradients", "stored", "needed")
WRITTEN = frozenset(("printed", "logged", "warned"))
"""Output that a repair may drop only if the author agrees."""
_TENSOR = ("type", "dtype", "shape", "stride", "device", "layout", "requires_grad", "shared memory", "values")
_SUBCLASS = ", subclass"
"""The probe with tensors of a subclass, which some torch operators refuse, such as torch.cond."""
_NO_COPY = "implementation of __deepcopy__()"
"""Part of torch's message for a subclass without `new_empty` (_tensor.py, 2.13)."""
_LONG = 120
"""Characters of a value that a difference shows."""


class CallDifference(Struct, frozen=True):
    """An observed call that differs in one way."""

    entry: str
    call: int
    kind: str
    detail: str
    refuses: bool = False
    """Whether a call that returned now raises: an exception is visible, a wrong result is not. Or the other way round
    for a tensor that torch cannot copy, which no call of the program can have passed.
    """


def differences(
    before: Observed, after: Observed, *, rounded: bool = False, gradients: bool = True
) -> tuple[CallDifference, ...]:
    """List how the calls of two runs differ.

    Args:
        before: the run to compare with.
        after: the other run.
        rounded: whether float values may differ.
        gradients: whether to compare gradients, and whether results have any.
    """
    found: list[CallDifference] = []
    later = {(each.name, each.call): each for each in after.entries}
    # A probe that raises is called again, so a second call that one run lacks follows from how the first one ended.
    raising = {each.name for each in (*before.entries, *after.entries) if each.raised and not each.call}
    for one in before.entries:
        other = later.pop((one.name, one.call), None)
        # A gradient penalty differentiates twice, and fails without gradients whatever the program is.
        if other is not None and (gradients or PENALTY not in one.name):
            found += _of_entry(one, other, rounded=rounded, gradients=gradients)
        elif other is None and not one.unended and not (one.call and one.name in raising):
            found.append(CallDifference(one.name, one.call, "raised", "this call is missing"))
    new = ((name, call) for name, call in later if not (call and name in raising))
    found += [CallDifference(name, call, "raised", "this call is new") for name, call in new]
    return tuple(found)


def _of_entry(one: Entry, other: Entry, *, rounded: bool, gradients: bool) -> Iterator[CallDifference]:
    if one.unended:
        return  # it shows nothing, whether the other one ends or not: see `ended_check`
    if other.unended:
        detail = f"did not end within {other.unended:.3g} s after, ended before"
        yield CallDifference(one.name, one.call, "raised", detail)
        return
    skipped = set() if gradients else {*_OF_BACKWARD}
    if bool(one.raised) != bool(other.raised):
        skipped |= {"outputs", *_OF_BACKWARD}  # that one of the two has none follows from what it raises
    for kind in [each for each in KINDS if each not in skipped]:
        if getattr(one, kind) == getattr(other, kind) or (kind == "raised" and _is_traced(one.raised, other.raised)):
            continue
        # Lists all the way down: what is dropped below is found by the lengths of lists.
        was, now = (to_builtins(each) for each in _pair(kind, one, other))
        if rounded and kind in ("outputs", "gradients", "stored", "inputs", "state"):
            was, now = _without_values(was), _without_values(now)
        if not gradients:
            was, now = _without_flags(was), _without_flags(now)
        if was != now:
            refuses = kind == "raised" and _is_refused(was, now)
            yield CallDifference(one.name, one.call, kind, described(kind, was, now), refuses)
            if refuses and one.name.endswith(_SUBCLASS):
                return  # what a call that raises does not return or print follows from that


def _is_refused(was: str, now: str) -> bool:
    """Whether only the change refuses a call: it raises now, and before it did not, or could not even be copied."""
    if _NO_COPY in was:
        return not now
    return not was and bool(now)


def _pair(kind: str, one: Entry, other: Entry) -> tuple[Any, Any]:
    """Return what to compare: of what a backward pass needs, only what it did not need before."""
    if kind == "needed":
        return (), tuple(each for each in other.needed if each not in one.needed)
    return getattr(one, kind), getattr(other, kind)


_TRACED = "TorchRuntimeError: RuntimeError when making fake tensor call"
"""How torch.cond says, while it traces in eager, that an op of a side raises RuntimeError; it is one, too (2.13)."""


def _is_traced(was: str, now: str) -> bool:
    """Whether torch.cond says in other words that an op of a side raises RuntimeError."""
    return was.startswith("RuntimeError: ") and now.startswith(_TRACED)


def _without_values(value: Any) -> Any:
    """Drop the digests of floating tensors and the text of floats."""
    if isinstance(value, list):
        if (
            # A tensor as `child/digests.py` describes it, with a dtype such as `float32`.
            len(value) == len(_TENSOR)
            and isinstance(value[1], str)
            and value[1].startswith(("float", "bfloat", "comp"))
        ):
            return value[:-1]
        # A tensor of the state (child/observed_state.py): no device, layout or shared memory, and `torch.float32` in
        # full.
        if len(value) == len(_TENSOR) - 3 and isinstance(value[1], str) and value[1].startswith("torch.float"):
            return value[:-1]
        if len(value) == 2 and value[0] == "float":
            return value[:1]
        return [_without_values(each) for each in value]
    return value


def _without_flags(value: Any) -> Any:
    """Drop `requires_grad` of tensors."""
    if isinstance(value, list):
        if len(value) == len(_TENSOR) and isinstance(value[6], bool):
            return [*value[:6], False, *value[7:]]
        if len(value) == len(_TENSOR) - 3 and isinstance(value[4], bool):
            return [*value[:4], False, *value[5:]]
        return [_without_flags(each) for each in value]
    return value


def described(kind: str, was: Any, now: Any) -> str:
    """Describe in a few words how two observations differ."""
    if kind == "raised":
        return _of_raised(was, now)
    if kind == "state":
        return _of_state(was or [], now or [])
    if kind == "memory":
        return _of_memory(was or [], now or [])
    if kind == "needed":
        return f"a backward pass raises if {_short(', '.join(now))} is written to before it, and did not before"
    if kind in WRITTEN:
        return f"{_quoted(was)} before, {_quoted(now)} after"
    if kind == "stored":
        return _of_stored(was or [], now or [])
    if kind == "gradients" and was and now:
        return _of_gradients(was, now)
    if kind == "random":
        return "the random generators are in a different state after the call"
    return _first_difference(was, now) or f"{_short(was)} before, {_short(now)} after"


def _of_raised(was: Any, now: Any) -> str:
    if was and now:
        return f"`{_short(was)}` before, `{_short(now)}` after"
    if now:
        return f"raises `{_short(now)}`, and did not before"
    return f"no longer raises `{_short(was)}`"


def _quoted(written: Any) -> str:
    if isinstance(written, list | tuple):
        text = " / ".join(written)
    else:
        text = str(written)
    if not text.strip():
        return "nothing"
    return f"`{_short(text.strip())}`"


def _of_state(was: list[Any], now: list[Any]) -> str:
    one, other = ({str(each[0]): each[1:] for each in changes} for changes in (was, now))
    for path in (*one, *other):
        name = path.partition(" ")[2] or path
        if path not in other:
            return f"no longer changes {_short(name)}"
        if path not in one:
            return f"changes {_short(name)}, and did not before"
        if one[path] != other[path]:
            return f"{_short(name)} becomes {_short(other[path][-1])}, before {_short(one[path][-1])}"
    return "the same changes in a different order"


def _of_memory(was: list[Any], now: list[Any]) -> str:
    earlier, later = ({str(path): str(after) for path, _, after in moved} for moved in (was, now))
    path = next((path for path in (*earlier, *later) if earlier.get(path) != later.get(path)), "")
    if not path:
        return "the same tensors share memory after the call, and different ones did before it"
    before, after = (f"memory of {_short(each[path])}" if path in each else "what it was" for each in (earlier, later))
    return f"{_short(path.partition(' ')[2] or path)} shares {before} before, {after} after"


def _of_gradients(was: list[Any], now: list[Any]) -> str:
    one, other = dict(was), dict(now)
    for name in (*one, *other):
        if one.get(name) != other.get(name):
            before, after = one.get(name, ["no gradient"]), other.get(name, ["no gradient"])
            if isinstance(before, list) and isinstance(after, list) and len(before) == len(after) == len(_TENSOR):
                return _first_difference(before, after, f"the gradient of {_short(name)}")
            return f"the gradient of {_short(name)} is {_short(_kind(before))} before, {_short(_kind(after))} after"
    return "the same gradients in a different order"


def _of_stored(was: list[Any], now: list[Any]) -> str:
    one, other = dict(was), dict(now)
    for path in (*one, *other):
        name = _short(path.partition(" ")[2] or path)
        if path not in one or path not in other:
            side = "before" if path in one else "after"
            return f"a backward pass from {name} is possible only {side}"
        if one[path] != other[path]:
            return f"from {name}, {_of_gradients(one[path], other[path])}"
    return "the same gradients in a different order"


def _first_difference(was: Any, now: Any, where: str = "") -> str:
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        if len(was) == len(_TENSOR) and isinstance(was[-1], str) and isinstance(was[2], list):
            return _difference_of_tensors(was, now, where or "the result")
        for index, (one, other) in enumerate(zip(was, now, strict=True)):
            if one != other:
                if isinstance(one, list) and len(was) > 2:
                    inner = f"value {index}"
                else:
                    inner = where
                return _first_difference(one, other, inner)
    if was is None:
        return "nothing before, a value after"
    if now is None:
        return "a value before, nothing after"
    if isinstance(was, list) and isinstance(now, list) and was[:1] != now[:1]:
        return f"{_short(_kind(was))} before, {_short(_kind(now))} after"
    return ""


def _difference_of_tensors(was: list[Any], now: list[Any], place: str) -> str:
    """Describe what differs first in the descriptions of two tensors."""
    name = next((name for name, one, other in zip(_TENSOR, was, now, strict=True) if one != other), "")
    if name == "values":
        return f"{place} has different values"
    at = 0
    if name:
        at = _TENSOR.index(name)
    return f"{place} has {name} {_short(was[at]) or 'none'} before, {_short(now[at]) or 'none'} after"


def _kind(value: list[Any]) -> str:
    if value[:1] == ["NoneType"]:
        return "None"
    if not value:
        return "nothing"
    return " ".join(map(str, value[:2]))


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    if len(text) <= _LONG:
        return text
    return f"{text[: _LONG - 1]}…"


def is_excused(difference: CallDifference) -> bool:
    """Whether a difference is only that torch refuses a subclass of Tensor, which opens no obligation."""
    return difference.kind == "raised" and difference.entry.endswith(_SUBCLASS) and difference.refuses


def checks_of(found: Iterable[CallDifference], compared: int) -> tuple[ProofCheck, ...]:
    """Return one check for each kind of difference."""
    by_kind: dict[str, list[CallDifference]] = {}
    for each in found:
        by_kind.setdefault(each.kind, []).append(each)
    return tuple(_check(kind, by_kind.get(kind, []), compared) for kind in KINDS)


def kept_checks() -> tuple[ProofCheck, ...]:
    """Return the checks of a change that no eager call can notice."""
    return tuple(ProofCheck(_CHECKS[kind], True, KEPT) for kind in KINDS)


def _check(kind: str, found: list[CallDifference], compared: int) -> ProofCheck:
    refused = [each for each in found if is_excused(each)]
    if refused == found:
        note = ""
        if refused:
            note = f"; not for tensor subclasses: {refused[0].detail}"
        return ProofCheck(_CHECKS[kind], True, f"the same in {compared} eager calls{note}")
    first = found[0]
    times = ""
    if len(found) > 1:
        times = f" (and in {len(found) - 1} more)"
    return ProofCheck(_CHECKS[kind], False, f"eager {_WORDS[kind]} with {first.entry}: {first.detail}{times}")


def ended_check(before: Observed, sides: Iterable[Sides], *, keeps_eager: bool) -> ProofCheck | None:
    """Return the check that each call ended, or did not run what changes; None: all ended.

    A call that did not end, neither before nor after the change, shows nothing about what it runs.
    """
    unended = [each for each in before.entries if each.unended]
    if not unended:
        return None
    reached = {name for each in sides for name in (*each.true, *each.false)}
    doubtful = [each for each in unended if not keeps_eager and (not reached or each.name in reached)]
    one = (doubtful or unended)[0]
    detail = f"the call with {one.name} did not end within {one.unended:g} s, also without the repair"
    if doubtful:
        return ProofCheck("calls_ended", False, f"{detail}: nothing shows that both do the same")
    return ProofCheck("calls_ended", True, f"{detail}; it does not run what the repair changes")


def sides_check(sides: Iterable[Sides], line: int | None) -> ProofCheck | None:
    """Return the check that calls reached both sides of every condition; None: there is no condition."""
    seen = [each for each in sides if not each.condition.is_part]
    if not seen:
        return None
    for each in seen:
        at = f"line {each.condition.line or line}"
        if each.failed:
            return ProofCheck("both_sides", False, f"`{each.condition.expression}` cannot be evaluated: {each.failed}")
        if not each.true and not each.false:
            return ProofCheck("both_sides", False, f"{at} was never run")
        if each.condition.expression and not (each.true and each.false):
            side = "true" if not each.true else "false"
            return ProofCheck(
                "both_sides",
                False,
                f"no input took the other side of {at}: `{each.condition.expression}` was never {side}",
            )
    number = sum(bool(each.condition.expression) for each in seen)
    what = "calls reached every changed line"
    if number:
        what = f"calls took both sides of {number} conditions"
    return ProofCheck("both_sides", True, what)
