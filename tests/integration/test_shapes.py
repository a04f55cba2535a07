"""Every shape of a break and a skip, compiled today; what torch releases differ in is listed here."""

import runpy
from pathlib import Path

import pytest

import ctrace
from tests.shapes import SHAPES, shape_of

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.mark.parametrize("name", SHAPES)
def test_compiled(name: str) -> None:
    import torch

    torch._dynamo.reset()
    with ctrace.trace() as traced:
        runpy.run_path(str(SCRIPTS / f"{name}.py"))
    assert shape_of(traced.session) == SHAPES[name]
    assert traced.session.problems == ()
