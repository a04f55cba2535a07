"""The code in the advice is true: `before` breaks and gets this very advice, `after` does not break."""

import importlib.util
import textwrap
from pathlib import Path
from typing import Any

import pytest

import ctrace
from ctrace.inspector.advice import Entry, entries
from ctrace.inspector.breaks.registry import registered_ids
from ctrace.inspector.model.session import Session

pytestmark = pytest.mark.integration

HEAD = """
import copy, logging, time, warnings, zlib
import torch
logger = logging.getLogger("advice")
CHECKSUM = zlib.crc32(b"abc") % 7
FAST = None
WEIGHT = torch.ones(3, requires_grad=True)
@torch.compiler.disable
def kept_out(x):
    return x.sin()
"""
BREAKS = {key: entry for key, entry in entries("breaks").items() if entry.before}
SKIPS = {key: entry for key, entry in entries("skips").items() if entry.before}


def _session(code: str, folder: Path) -> Session:
    """Compile an example as the body of a function of a tensor, and call it twice."""
    import torch

    file = folder / "example.py"
    file.write_text(f"{HEAD}\ndef f(x):\n{textwrap.indent(code, '    ')}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("example", file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch._dynamo.reset()
    with ctrace.trace() as traced:
        compiled = torch.compile(module.f, backend="eager")
        for _ in range(2):
            compiled(torch.ones(3))
    return traced.session


@pytest.mark.parametrize("key", BREAKS)
def test_a_break_gets_the_advice_whose_example_it_is(key: str, tmp_path: Path) -> None:
    if key.startswith("GB") and key[:6] not in registered_ids():
        pytest.skip("this torch calls it otherwise")
    entry: Entry = BREAKS[key]
    broken = _session(entry.before, tmp_path).breaks
    assert entry.about(broken[0].expression).fix == broken[0].fix
    assert broken[0].advice.before == entry.before


@pytest.mark.parametrize("key", SKIPS)
def test_a_skip_gets_the_advice_whose_example_it_is(key: str, tmp_path: Path) -> None:
    assert [skip.rule for skip in _session(SKIPS[key].before, tmp_path).skips] == [key]


@pytest.mark.parametrize("entry", [*BREAKS.values(), *SKIPS.values()], ids=[*BREAKS, *SKIPS])
def test_what_the_advice_says_does_not_break(entry: Entry, tmp_path: Path) -> None:
    session = _session(entry.after, tmp_path)
    assert (session.breaks, session.skips, len(session.graphs)) == ((), (), 1)
    assert session.problems == ()
