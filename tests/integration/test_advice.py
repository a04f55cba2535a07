"""The code in the advice is true: `before` breaks and gets this advice, `after` does not and returns the same."""

import importlib.util
import random
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ctrace
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.breaks.advice_lookup import registered_ids
from ctrace.inspector.knowledge.advice import AdviceEntry, entries
from ctrace.inspector.knowledge.releases import release_of, torch_version

pytestmark = pytest.mark.integration

HEAD = """
import collections, contextlib, contextvars, copy, functools, io, itertools, logging, operator, queue, random, re
import threading, time, types, typing, warnings, zlib
import numpy as np
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn
logger = logging.getLogger("advice")
CHECKSUM = zlib.crc32(b"abc") % 7
FAST = None
WEIGHT = torch.ones(3, requires_grad=True)
"""
BREAKS = {key: entry for key, entry in entries("breaks").items() if entry.before}
SKIPS = {key: entry for key, entry in entries("skips").items() if entry.before}
TRIED = ("2.13", "2.15")
"""The versions of torch that the examples of gb ids were written for."""
TORCH = ".".join(map(str, release_of(torch_version() or "") or ()))
SAMPLE = 4
"""One in four examples of gb ids runs by default; all run with the slow tests."""
RAISES = {"GB0040", "GB0041", "GB0067", "GB0308", "GB0313", "GB0314", "GB0339", "GB0343"}
"""Examples of operators such as torch.cond: they compile their functions in eager code as well, and raise."""
EXAMPLES = [
    pytest.param(key, marks=[pytest.mark.slow] if key.startswith("GB") and at % SAMPLE else [], id=key)
    for at, key in enumerate(BREAKS)
]


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Restore torch's settings, which some examples change."""
    import torch

    saved, modules = torch._dynamo.config.save_config(), set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        if name.startswith("example_"):
            del sys.modules[name]
    torch._dynamo.config.load_config(saved)
    torch._dynamo.reset()


def _input() -> Any:
    import torch

    return torch.tensor([0.5, -1.0, 2.0])


def _module(code: str, folder: Path) -> Any:
    """Load an example: a program with a function `forward`, or the body of a function of a tensor x."""
    if not re.search(r"^def forward\(x\):", code, re.MULTILINE):
        code = f"def forward(x):\n{textwrap.indent(code, '    ')}"
    file = folder / f"example_{random.getrandbits(64)}.py"  # Python caches the lines of a file by its name
    file.write_text(f"{HEAD}\n{code}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # Dynamo imports the module of a function that it guards
    spec.loader.exec_module(module)
    return module


def _run(code: str, folder: Path) -> tuple[Session, str, Any]:
    """Compile an example and call it; return the session, the text of an error, and the result."""
    import torch

    torch._dynamo.reset()
    result, error = None, ""
    with ctrace.trace() as traced:
        try:
            # Some operators compile their functions even in eager code, while the example is loaded.
            result = torch.compile(_module(code, folder).forward, backend="eager")(_input())
        except Exception as raised:
            error = str(raised) or type(raised).__name__
    return traced.session, error, result


def _eager(code: str, folder: Path) -> Any:
    return _module(code, folder).forward(_input())


def _numbers(result: Any) -> Any:
    """Return a result's first tensor, without gradients, as float64."""
    import torch

    first = result[0] if isinstance(result, tuple) else result
    return torch.as_tensor(first).detach().as_subclass(torch.Tensor).double()


def _skip_if_untried(key: str, entry: AdviceEntry) -> None:
    if not key.startswith("GB"):
        return
    if key[:6] not in registered_ids():
        pytest.skip(f"torch {TORCH} does not have this id")
    if TORCH not in TRIED:
        pytest.skip(f"tried with torch {' and '.join(TRIED)} only")
    if entry.breaks_on and entry.breaks_on != TORCH:
        pytest.skip(f"breaks with this id on torch {entry.breaks_on} only")


@pytest.mark.parametrize("key", EXAMPLES)
def test_a_break_gets_the_advice_whose_example_it_is(key: str, tmp_path: Path) -> None:
    entry = BREAKS[key]
    _skip_if_untried(key, entry)
    session, error, _ = _run(entry.before, tmp_path)
    if f"{key[:6].lower()}.html" in error:  # an operator such as torch.cond raises instead of breaking
        return
    assert error == ""
    found = [each for each in session.breaks if each.advice.before == entry.before]
    assert found, [(each.gb, each.title) for each in session.breaks]
    assert found[0].fix == entry.about(found[0].expression).fix
    if key.startswith("GB"):
        assert key[:6] in found[0].gb


@pytest.mark.parametrize("key", SKIPS)
def test_a_skip_gets_the_advice_whose_example_it_is(key: str, tmp_path: Path) -> None:
    assert [skip.rule for skip in _run(SKIPS[key].before, tmp_path)[0].skips] == [key]


@pytest.mark.parametrize("key", [*EXAMPLES, *SKIPS])
def test_the_advised_code_does_not_break(key: str, tmp_path: Path) -> None:
    import torch

    entry = (BREAKS | SKIPS)[key]
    _skip_if_untried(key, entry)
    session, error, result = _run(entry.after, tmp_path)
    assert error == ""
    assert (session.breaks, session.skips, len(session.graphs)) == ((), (), 1)
    assert session.problems == ()
    if key in SKIPS:
        return
    eager = _eager(entry.after, tmp_path)
    assert torch.equal(_numbers(result), _numbers(eager))
    if key not in RAISES:
        assert torch.equal(_numbers(eager), _numbers(_eager(entry.before, tmp_path)))
