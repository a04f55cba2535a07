"""Every kind of break, skip and recompile, compiled with the installed torch."""

import platform
import runpy

import pytest

import ctrace
from ctrace.inspector.model.session import Session
from tests.support.places import SCRIPTS
from tests.support.shapes import ELSEWHERE, RECOMPILES, SHAPES, cached_of, shape_of

pytestmark = pytest.mark.integration


def _run(name: str) -> Session:
    import torch

    torch._dynamo.reset()
    with ctrace.trace() as traced:
        runpy.run_path(str(SCRIPTS / f"{name}.py"))
    assert traced.session.problems == ()
    return traced.session


def _release(version: str) -> str:
    return ".".join(version.split(".")[:2])


@pytest.mark.parametrize("name", SHAPES)
def test_compiled(name: str) -> None:
    import torch

    releases = _release(torch.__version__), _release(platform.python_version())
    assert shape_of(_run(name)) == ELSEWHERE.get(releases, {}).get(name, SHAPES[name])


@pytest.mark.parametrize("name", RECOMPILES)
def test_compiled_again(name: str) -> None:
    assert cached_of(_run(name)) == RECOMPILES[name]
