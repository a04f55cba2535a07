"""Select with torch.where what Python chose: both sides are computed, and the condition stays a tensor."""

from collections.abc import Iterable
from typing import NamedTuple


class Selection(NamedTuple):
    """What a branch assigns to a name, or returns, on both sides."""

    target: str
    """Empty: it is returned."""
    yes: str
    no: str


def where(torch: str, condition: str, yes: str, no: str) -> str:
    """Return the call that selects one of two sides."""
    return f"{torch}.where({condition}, {yes}, {no})"


def with_ones(torch: str, condition: str, operand: str, *, holds: bool) -> str:
    """Return an operand with ones where its side is not selected; the side is selected where a condition holds, or not.

    Ones keep the gradients of a steep op finite there, which the selection multiplies by zero.
    """
    if holds:
        return where(torch, condition, operand, "1")
    return where(torch, condition, "1", operand)


def with_zeros(torch: str, mask: str, tensor: str) -> str:
    """Return a tensor with zeros outside of a mask; its dtype stays, since an integer promotes none but booleans."""
    return where(torch, mask, tensor, "0")


def smaller_or_larger(torch: str, function: str, first: str, second: str) -> str:
    """Return `min(a, b)` or `max(a, b)` as Python computes it, also for NaN: b if b is less, or greater, else a."""
    sign = "<" if function == "min" else ">"
    return where(torch, f"{second} {sign} {first}", second, first)


def selecting(torch: str, condition: str, selections: Iterable[Selection], *, name: str = "") -> list[str]:
    """Return the statements that replace a branch; with `name`, they compute its condition once, under that name."""
    statements, returned = [], []
    if name:
        statements.append(f"{name} = {condition}")
    for each in selections:
        value = where(torch, name or condition, each.yes, each.no)
        if each.target:
            statements.append(f"{each.target} = {value}")
        else:
            returned.append(value)
    if returned:
        statements.append(f"return {', '.join(returned)}")
    return statements
