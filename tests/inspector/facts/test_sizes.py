"""The kind of each dimension, from our own record and from torch's entries alone."""

from typing import Any

import pytest

from ctrace.inspector.facts.shape_facts import Dimension, DimKind, DimPolicy, Shaped, Unbacked
from tests.support import sizes
from tests.support.helpers import MODEL, PROJECT, Log, recorded

X = "L['x'].size()[0]"


def _shaped(**parts: Any) -> Shaped:
    log = sizes.symbol(Log().started().frame("0/0"), "0/0", "s77", X)
    (found,) = sizes.shapes(log, "0/0", **parts).graph("0/0").metrics("0/0").session().shapes
    return found


def _dim(made: dict[str, Any], *symbols: dict[str, Any], always: str | None = None, **parts: Any) -> Dimension:
    tensors = [sizes.tensor("L['x']", made, always=always)]
    return _shaped(tensors=tensors, symbols=symbols or [sizes.known("s77", X)], **parts).tensors[0].dims[0]


FREE = {"became": "s77", "symbol": "s77"}


@pytest.mark.parametrize(
    ("made", "more", "kind", "policy"),
    [
        (sizes.dim("8"), {}, DimKind.STATIC, DimPolicy.NOT_VARIED),
        (sizes.dim("8"), {"automatic": False}, DimKind.STATIC, DimPolicy.ALL_STATIC),
        (sizes.dim("8"), {"always": "parameter"}, DimKind.STATIC, DimPolicy.PARAMETER),
        (sizes.dim("8"), {"always": "nn_module_property"}, DimKind.STATIC, DimPolicy.MODULE),
        (sizes.dim("8", marks=["static"]), {}, DimKind.STATIC, DimPolicy.MARKED_STATIC),
        (sizes.dim("1"), {}, DimKind.STATIC, DimPolicy.NOT_VARIED),
        (sizes.dim("1", "duck"), {}, DimKind.ZERO_ONE, DimPolicy.ALL_DYNAMIC),
        (sizes.dim("0", "dynamic", marks=["dynamic"]), {}, DimKind.ZERO_ONE, DimPolicy.MARKED_DYNAMIC),
        (sizes.dim("8", "dynamic", symbol="s77", constraint="automatic"), {}, DimKind.SPECIALIZED, DimPolicy.AUTOMATIC),
        (sizes.dim(policy="dynamic", constraint="automatic", **FREE), {}, DimKind.SYMBOLIC, DimPolicy.AUTOMATIC),
        (sizes.dim(policy="dynamic", marks=["maybe_dynamic"], **FREE), {}, DimKind.SYMBOLIC, DimPolicy.MAYBE_DYNAMIC),
        (sizes.dim(policy="dynamic", marks=["listed"], **FREE), {}, DimKind.SYMBOLIC, DimPolicy.LISTED),
        (sizes.dim(policy="dynamic", **FREE), {}, DimKind.SYMBOLIC, DimPolicy.UNKNOWN),
        (sizes.dim(policy="duck", **FREE), {}, DimKind.SYMBOLIC, DimPolicy.ALL_DYNAMIC),
        (sizes.dim("u0", "unbacked", marks=["unbacked"]), {}, DimKind.UNBACKED, DimPolicy.MARKED_UNBACKED),
    ],
)
def test_kinds(made: dict[str, Any], more: dict[str, Any], kind: DimKind, policy: DimPolicy) -> None:
    found = _dim(made, **more)
    assert (found.kind, found.policy) == (kind, policy)


def test_range_and_conditions() -> None:
    log = sizes.condition(sizes.symbol(Log().started().frame("0/0"), "0/0", "s77", X), "0/0", "s77 > 3")
    tensors = [sizes.tensor("L['x']", sizes.dim(policy="dynamic", **FREE))]
    sizes.shapes(
        log, "0/0", tensors=tensors, symbols=[sizes.known("s77", X, low=4, high=2**63 - 2)], conditions=["s77 > 3"]
    )
    (shaped,) = log.graph("0/0").session().shapes
    found = shaped.tensors[0].dims[0]
    assert (found.low, found.high) == (4, None)  # the maximum of a size is not a bound
    assert [(each.text, each.line) for each in found.conditions] == [("x.size(0) > 3", 10)]


def test_sizes_that_were_equal_are_told_from_each_other() -> None:
    twin = sizes.known("s77", X, "L['y'].size()[1]")
    found = _dim(sizes.dim(policy="duck", **FREE), twin)
    assert (found.kind, found.same_as, found.became) == (DimKind.DUCK, ("y.size(1)",), "")


def test_what_must_equal_another_is_told_in_its_name() -> None:
    tensors = [sizes.tensor("L['y']", sizes.dim("2*s77", "dynamic", symbol="s17", constraint="automatic"))]
    found = _shaped(tensors=tensors, symbols=[sizes.known("s77", X)]).tensors[0].dims[0]
    assert (found.kind, found.became) == (DimKind.SYMBOLIC, "2 * x.size(0)")


def test_numbers_are_listed_and_contents_of_tensors_are_not() -> None:
    number = {"type": "int", "value": "3", "became": "s86", "symbol": "s86"}
    numbers = [{**number, "source": "L['n']"}, {**number, "source": "L['n']"}, {**number, "source": "L['t'].item()"}]
    (found,) = _shaped(numbers=numbers, symbols=[sizes.known("s86", "L['n']", low=None)]).tensors
    assert (found.name, found.role, found.dtype) == ("n", "number", "int")
    assert found.dims[0] == Dimension(None, "3", DimKind.SYMBOLIC, DimPolicy.AUTOMATIC)


def test_static_tensors_are_written_short() -> None:
    still = {"source": "L['self']._modules['fc']._parameters['weight']", "dtype": "float32", "role": "parameter"}
    (found,) = _shaped(static=[{**still, "always": "parameter", "sizes": [3, 6]}]).tensors
    assert found.name == "self.fc.weight"
    assert [(each.size, each.policy) for each in found.dims] == [("3", DimPolicy.PARAMETER), ("6", DimPolicy.PARAMETER)]


class TestData:
    def test_origin(self) -> None:
        log = sizes.unbacked(Log().started().frame("0/0"), "0/0", "u0")
        sizes.shapes(log, "0/0", symbols=[sizes.known("u0", low=0, high=4, unbacked=True)])
        (shaped,) = log.graph("0/0").session().shapes
        assert shaped.unbacked == (Unbacked("u0", 0, 4, MODEL, 10, "if x.shape[0] > 3:"),)

    def test_inputs_that_were_marked_are_none(self) -> None:
        log = sizes.unbacked(Log().started().frame("0/0"), "0/0", "u0")
        sizes.shapes(log, "0/0", tensors=[sizes.tensor("L['x']", sizes.dim("u0", "unbacked"))])
        (shaped,) = log.graph("0/0").session().shapes
        assert shaped.unbacked == ()


class TestNeeded:
    FAILED = (
        "Could not guard on data-dependent expression u0 > 2 (unhinted: u0 > 2).  (Size-like symbols: u0)\n\n"
        "User Stack (most recent call last):\n  (snipped, see stack below for prefix)\n"
        f'  File "{MODEL}", line 6, in f\n    if index.shape[0] > 2:\n       ^^^^^^^^^^^^^^^^^^\n\nFor C++ stack trace'
    )

    def _shaped(self, reason: str) -> Shaped:
        log = sizes.shapes(Log().started().frame("0/0"), "0/0")
        (found,) = log.metrics("0/0", fail_type="UserError", fail_reason=reason).session().shapes
        return found

    def test_the_user_s_own_condition_is_told(self) -> None:
        (needed,) = self._shaped(self.FAILED).needed
        assert (needed.text, needed.source, needed.line) == ("index.shape[0] > 2", "index.shape[0] > 2", 6)

    def test_without_a_stack_torch_s_condition_is(self) -> None:
        (needed,) = self._shaped(self.FAILED.partition("\n")[0]).needed
        assert (needed.text, needed.source, needed.line) == ("u0 > 2", "", None)

    def test_other_failures_need_nothing(self) -> None:
        assert self._shaped("it is broken").needed == ()


def test_a_log_of_torch_s_own_says_what_it_can() -> None:
    shapes = {each.compilation: each for each in recorded("sizes.torch").shapes}
    assert not any(each.complete for each in shapes.values())
    x = shapes["0/1"].tensors[0]
    assert (x.name, x.dims[0].index, x.dims[0].kind, x.dims[0].policy) == ("x", 0, DimKind.SYMBOLIC, DimPolicy.UNKNOWN)
    fixed = shapes["1/1"].tensors[0].dims[0]
    assert fixed.kind is DimKind.SPECIALIZED
    assert fixed.fixed is not None
    assert fixed.fixed.line == 24


def test_a_recorded_violation() -> None:
    (shaped,) = recorded("constraint_violation").shapes
    x = next(each for each in shaped.tensors if each.name == "x")
    assert shaped.fail_type == "ConstraintViolationError"
    assert (x.dims[0].kind, x.dims[0].policy) == (DimKind.SPECIALIZED, DimPolicy.MARKED_DYNAMIC)
    assert x.dims[0].fixed is not None
    assert (x.dims[0].fixed.file, x.dims[0].fixed.line) == (f"{PROJECT}/constraint_violation.py", 12)
