"""Parse torch's text of failed guards."""

import re

from ctrace.inspector.facts.events.guard_events import UnmetGuard
from ctrace.inspector.facts.findings import CauseKind

PARAMETER_HINT = ". Guard failed on a parameter, "
TENSOR = re.compile(
    r"tensor '(?P<name>.*?)' (?:Tensor )?(?P<what>size|stride|dtype|device|layout|requires_grad|dispatch key set|rank)"
    r"(?: index)? mismatch(?: at index (?P<index>\d+))?\. "
    r"[Ee]xpected (?:device index to be )?(?P<was>.*?)(?:, actual (?P<now>.*))?$"
)
"""`TensorCheck::check_verbose`, torch/csrc/dynamo/guards.cpp (2.13)."""
EXPECTED_TENSOR = re.compile(
    r"expected type of '(?P<name>.*?)' to be a tensor type, ?'?(?P<was>\w+)?'? but found (?P<found>.*)$"
)


def size_kind(was: str, now: str) -> CauseKind:
    """Return `zero_one` for a size that changed to or from 0 or 1, because torch specializes on these; else `size`."""
    if {was, now} & {"0", "1"}:
        return CauseKind.ZERO_ONE
    return CauseKind.SIZE


def type_name(qualified: str) -> str:
    """Write a type as in a program: `list`, not `builtins.list`."""
    return qualified.removeprefix("builtins.").removeprefix("__main__.")


_NAME = r"[LG]\['[^']*'\](?:\['[^']*'\]|\[\d+\]|\.\w+)*?"
_SIZES = re.compile(rf"(?:{_NAME})\.(?:size|stride)\(\)\[\d+\]")
_NUMBER = re.compile(rf"(?:-?[\d.]+ <=? )?(?P<source>{_NAME})(?: (?:==|!=|<=?|>=?) -?[\d.]+(?:e[+-]?\d+)?)?$")


def sources_of(text: str) -> tuple[str, ...]:
    """Return torch's names for the sizes or the number in a guard, such as `L['x'].size()[0]` or `L['n']`."""
    match = TENSOR.match(text)
    if match is not None:
        index = match["index"]
        if index is None:
            return ()
        return (f"{match['name']}.{match['what']}()[{index}]",)
    if sizes := _SIZES.findall(text):
        return tuple(dict.fromkeys(sizes))
    compared = _NUMBER.match(text)
    return (compared["source"],) if compared else ()


def tensor_of(text: str) -> str | None:
    """Return torch's name for the tensor that a guard checks."""
    match = TENSOR.match(text)
    return match["name"] if match else None


def check_order(guard: UnmetGuard) -> int:
    """Return the position of a guard in the order in which torch checks a tensor; other guards come last.

    A tensor where the entry has None fails first, as it would if the entry had another type of tensor.
    """
    if EXPECTED_TENSOR.match(guard.text) or _IS_NONE.search(guard.text):
        return 0
    match = TENSOR.match(guard.text)
    if match:
        return _TENSOR_ORDER.index(match["what"])
    return len(_TENSOR_ORDER)


_IS_NONE = re.compile(r" is None$")
_TENSOR_ORDER = ("type", "layout", "dispatch key set", "dtype", "device", "requires_grad", "rank", "size", "stride")
"""TensorCheck::check_verbose, torch/csrc/dynamo/guards.cpp (2.13)."""
