"""Compiled results compared with eager in real runs: no false alarms, no missed faults."""

import json
import textwrap
from typing import Any

import pytest

from tests.integration.conftest import Command
from tests.support.places import TESTS

DIT = (TESTS / "faults" / "_results_models.py").read_text().partition("class DiT")[2]
HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F
"""


def explained(ctrace: Command, source: str, *words: str) -> dict[str, Any]:
    ctrace.write("model.py", HEAD + textwrap.dedent(source))
    result = ctrace("explain", "model.py", "--json", *words)
    assert result.code == 0, result.err
    assert result.report["problems"] == []
    return result.report


def base(report: dict[str, Any]) -> dict[str, Any]:
    (scenario,) = report["scenarios"]
    return scenario


@pytest.mark.long
def test_a_block_under_autocast_is_no_danger(ctrace: Command) -> None:
    model = f"class DiT{DIT.partition('@model')[0]}"
    inputs = """
class Model(DiT):
    def forward(self, x, c):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x, c)

torch.manual_seed(0)
model = Model()
given = torch.randn(2, 16, 64), torch.randn(2, 64)
def inputs(): return given
"""
    report = explained(ctrace, model.replace("Any", "object") + inputs, "--build")
    assert report["dangers"] == []
    scenario = base(report)
    assert (scenario["compared"], scenario["not_compared"], scenario["rule"]) == (2, None, "reference")
    assert 0 < scenario["compiled_error"] < 5 * scenario["eager_error"]


BUGGY = """
torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8)){cast}
X = torch.randn(16, 32){cast}
def inputs(): return (X,)
"""


@pytest.mark.parametrize("cast", ["", pytest.param(".bfloat16()", marks=pytest.mark.slow)])
def test_an_error_of_the_compiler_is_found(cast: str, ctrace: Command) -> None:
    (danger,) = explained(ctrace, BUGGY.format(cast=cast), "--build")["dangers"]
    assert (danger["kind"], danger["rule"], danger["proven"]) == ("unexplained", "reference", False)
    assert danger["compiled_error"] > 5 * danger["eager_error"]
    screen = ctrace("explain")
    assert "error against float64: eager" in " ".join(screen.out.split())


def test_random_numbers_are_not_compared(ctrace: Command) -> None:
    source = """
        from torch.utils.checkpoint import checkpoint
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 16))
            def forward(self, x):
                return checkpoint(self.block, x, use_reentrant=False)
        model = Model()
        def inputs(): return (torch.randn(4, 16),)
        """
    report = explained(ctrace, source, "--train")
    assert report["dangers"] == []
    scenario = base(report)
    assert scenario["compared"] == 2 or "random numbers" in scenario["not_compared"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return torch.ops.ctracetest.only32(x @ x)", "fails in float64"),
        ("return (x @ x).to(torch.float8_e4m3fn).to(torch.float32)", "quantizes"),
        ("return (x @ x).view(torch.int32).float() @ x", "bits"),
    ],
)
def test_without_a_reference_tolerances_decide_and_the_reason_is_shown(body: str, reason: str, ctrace: Command) -> None:
    source = f"""
        @torch.library.custom_op("ctracetest::only32", mutates_args=())
        def only32(x: torch.Tensor) -> torch.Tensor:
            assert x.dtype is torch.float32
            return x + 1
        @only32.register_fake
        def _(x):
            return torch.empty_like(x)
        def wrong(graph):
            for node in list(graph.nodes):
                if node.target is torch.ops.aten.mm.default:
                    with graph.inserting_after(node):
                        other = graph.call_function(torch.ops.aten.mul.Tensor, (node, 1.5))
                    other.meta = dict(node.meta)
                    node.replace_all_uses_with(other, delete_user_cb=lambda user: user is not other)
        torch._inductor.config.post_grad_custom_post_pass = wrong
        X = torch.randn(32, 32)
        def model(x):
            {body}
        def inputs(): return (X,)
        """
    (danger,) = explained(ctrace, source, "--build")["dangers"]
    assert danger["rule"] == "tolerance"
    assert reason in danger["no_reference"]


def test_a_stale_value_that_rounding_could_hide_is_still_proven(ctrace: Command) -> None:
    source = """
        import settings
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.one = nn.Linear(32, 32)
            def forward(self, x):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    y = self.one(x)
                return y.float() * getattr(settings, "scale", 1.0)
        model = Model()
        X = torch.randn(8, 32)
        def inputs(): return (X,)
        def changed():
            settings.scale = 1.0005
            return (X,)
        scenarios = {"changed": changed}
        """
    ctrace.write("settings.py", "")
    (danger,) = explained(ctrace, source)["dangers"]
    assert (danger["kind"], danger["subject"], danger["rule"]) == ("global", "settings.scale", "experiment")
    assert json.dumps(danger)
