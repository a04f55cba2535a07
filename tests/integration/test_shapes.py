"""Every kind of break, skip and recompile, compiled with the installed torch."""

import runpy
import sys

import pytest

import ctrace
from ctrace.inspector.facts.session import Session
from tests.support.places import SCRIPTS
from tests.support.shapes import RECOMPILES, SHAPES, cached_of, expected, shape_of

pytestmark = pytest.mark.integration


def _run(name: str) -> Session:
    import torch

    torch._dynamo.reset()
    with ctrace.trace() as traced:
        runpy.run_path(str(SCRIPTS / f"{name}.py"))
    assert traced.session.problems == ()
    return traced.session


@pytest.mark.parametrize("name", SHAPES)
def test_compiled(name: str) -> None:
    import torch

    assert shape_of(_run(name)) == expected(name, torch.__version__, sys.version_info[:2])


@pytest.mark.parametrize("name", RECOMPILES)
def test_compiled_again(name: str) -> None:
    assert cached_of(_run(name)) == RECOMPILES[name]
