"""Repaired programs do in eager what they did, bit for bit, and break less when compiled."""

import contextlib
import io
import warnings
from collections import Counter
from typing import Any

import pytest
import torch
import torch._dynamo.utils

from tests.support.repaired import REPAIRS, Case, all_cases

pytestmark = pytest.mark.thorough

_EAGER = 100
RUN = [(name, case) for name, case in all_cases() if case.after is not None and "inputs" in case.about]


def observed(source: str, case: Case) -> list[object]:
    """Run every call of a case: what it returned, printed, raised, and what became of its arguments and gradients."""
    names = loaded(source)
    found: list[object] = []
    for inputs in eval(case.about["inputs"], {"torch": torch}):
        torch.manual_seed(0)
        args = [
            arg.detach().clone().requires_grad_(arg.requires_grad) if torch.is_tensor(arg) else arg for arg in inputs
        ]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                result = names["f"](*args)
            except Exception as error:
                result = (type(error).__name__,)
        results = result if isinstance(result, tuple) else (result,)
        for one in results:
            if torch.is_tensor(one) and one.requires_grad:
                one.sum().backward(retain_graph=True)
        grads = [arg.grad for arg in args if torch.is_tensor(arg)]
        alias = [any(one is arg for arg in args) for one in results]
        found += [results, args, grads, alias, printed.getvalue(), [str(one.message) for one in warned]]
    return found


def loaded(source: str) -> dict[str, Any]:
    """Run a program."""
    names: dict[str, Any] = {"__name__": "__main__"}
    torch.manual_seed(0)
    exec(compile(source, "model.py", "exec"), names)
    return names


def same(one: object, other: object, *, rounded: bool) -> bool:
    """Whether two observations are equal bit for bit, or within rounding."""
    if torch.is_tensor(one) and torch.is_tensor(other):
        if (one.dtype, one.shape, one.requires_grad) != (other.dtype, other.shape, other.requires_grad):
            return False
        return torch.allclose(one, other, equal_nan=True, atol=1e-6) if rounded else identical(one, other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(*pair, rounded=rounded) for pair in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return type(one) is type(other) and same([*one.items()], [*other.items()], rounded=rounded)
    return type(one) is type(other) and (one == other or one != one)


def identical(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same bits."""
    return one.detach().numpy().tobytes() == other.detach().numpy().tobytes()


def pieces(source: str, case: Case) -> int:
    """Compile a program with the backend `eager`; count its breaks, and the frames that Dynamo looked at.

    A frame that it left in eager counts more than any number of compiled ones here.
    """
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(loaded(source)["f"], backend="eager")
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for inputs in eval(case.about["inputs"], {"torch": torch}):
            with contextlib.suppress(Exception):
                compiled(*inputs)
    frames, breaks = torch._dynamo.utils.counters["frames"], torch._dynamo.utils.counters["graph_break"]
    return frames["total"] + _EAGER * (frames["total"] - frames["ok"]) + sum(breaks.values())


def parameters(found: list[tuple[str, Case]], *, first: int | None = None) -> list[object]:
    """Return all cases; those after the `first` ones of each repair are slow."""
    made: list[object] = []
    seen = Counter[str]()
    for name, case in found:
        seen[name] += 1
        marks = [pytest.mark.slow] if first is not None and seen[name] > first else []
        made.append(pytest.param(name, case, id=f"{name}: {case.name}", marks=marks))
    return made


@pytest.mark.parametrize(("name", "case"), parameters(RUN))
def test_eager_is_the_same(name: str, case: Case):
    rewrite = case.rewrite(REPAIRS[name])
    assert rewrite is not None
    before, after = observed(case.spelled(case.before), case), observed(rewrite.source, case)
    assert same(before, after, rounded=rewrite.changes_arithmetic)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "case"), parameters([one for one in RUN if one[1].about.get("graphs") != "same"], first=2)
)
def test_fewer_graphs_and_breaks(name: str, case: Case):
    rewrite = case.rewrite(REPAIRS[name])
    assert rewrite is not None
    assert pieces(rewrite.source, case) < pieces(case.spelled(case.before), case)


def test_every_repair_is_run():
    assert {name for name, _ in RUN} == set(REPAIRS)
