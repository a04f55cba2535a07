"""torch.compiler.precompile compiles without Dynamo: the program works under ctrace, and the report says what it lacks."""

from pathlib import Path

import pytest

from tests.integration.conftest import Command

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not hasattr(getattr(torch.compiler, "precompile", None), "capture"),
        reason="torch.compiler.precompile.capture exists from torch 2.15 on",
    ),
]

PROGRAM = """\
import torch
from pathlib import Path


def forward(net, x):
    return net(x.sin()).relu()


net, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
here = Path(__file__).parent
files = {"artifact_path": here / "made.py", "cache_path": here / "made.cache"}
with torch.compiler.precompile.capture(forward, **files) as capture:
    captured = capture(net, x)
loaded = torch.compiler.precompile.load(here / "made.py", here / "made.cache")
assert torch.equal(loaded(net, x), captured)
compiled = torch.compile(net)
compiled(x)
"""


def test_a_precompiled_function_works_and_does_not_count_as_a_graph(ctrace: Command, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = ctrace("explain", str(program), "--json")
    assert result.code == 0, result.err
    assert (tmp_path / "made.py").exists()
    assert len(result.report["graphs"]) == 1
    (problem,) = result.report["problems"]
    assert "compiled ahead of time, outside of torch.compile" in problem["what"]
