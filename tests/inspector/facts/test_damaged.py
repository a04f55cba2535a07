"""Bytecode of a damaged or hostile log: nothing fails, and nothing runs forever."""

import pytest

from ctrace.inspector.features.bytecode.reconstruct import NotReconstructed, reconstruct
from ctrace.inspector.features.bytecode.stackforms import ConstantForm, written
from ctrace.inspector.features.bytecode.stackwalk import walked
from tests.inspector.features.bytecode.test_alignment import code, instruction
from tests.support.sampling import sampled

LOAD = instruction(0, "LOAD_FAST", 0, "x", 1)
RETURN = instruction(20_000, "RETURN_VALUE", None, "", 1)


@pytest.mark.parametrize(
    ("name", "arg"),
    [("SWAP", -5), ("SWAP", 0), ("COPY", 0), ("COPY", 10**9), ("UNPACK_SEQUENCE", 10**9)],
)
def test_arguments_that_no_code_has(name: str, arg: int) -> None:
    made = code([LOAD, instruction(2, name, arg, "", 1), RETURN])
    assert list(walked(made)) == [0]
    assert isinstance(reconstruct(made), NotReconstructed)


@pytest.mark.parametrize("name", sampled(["LOAD_ATTR", "BUILD_TUPLE"]))
def test_values_do_not_nest_without_end(name: str) -> None:
    deep = [instruction(2 + 2 * at, name, 1, "a", 1) for at in range(1_000)]
    steps = walked(code([LOAD, *deep, RETURN]))
    assert len(steps) == len(deep) + 2
    assert all(written(value.form, step.lists) for step in steps.values() for value in step.put)


def test_long_numbers_are_no_index() -> None:
    assert ConstantForm("9" * 5_000).number is None
