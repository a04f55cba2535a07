"""Every shape of a break and a skip, compiled today."""

import platform
import runpy
from pathlib import Path

import pytest

import ctrace
from tests.shapes import ELSEWHERE, SHAPES, shape_of

pytestmark = pytest.mark.integration

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.mark.parametrize("name", SHAPES)
def test_compiled(name: str) -> None:
    import torch

    torch._dynamo.reset()
    with ctrace.trace() as traced:
        runpy.run_path(str(SCRIPTS / f"{name}.py"))
    releases = tuple(".".join(version.split(".")[:2]) for version in (torch.__version__, platform.python_version()))
    assert shape_of(traced.session) == ELSEWHERE.get(releases, {}).get(name, SHAPES[name])
    assert traced.session.problems == ()
