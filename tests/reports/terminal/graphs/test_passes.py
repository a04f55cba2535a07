"""Passes and attention on a screen, and as JSON data."""

import json

import pytest

from ctrace.inspector.facts.passes import Attention, Pass, Pattern, Why
from ctrace.inspector.facts.session import Environment, Session
from ctrace.inspector.findings.graphs.passes_view import runs
from ctrace.reports.json.passes import attention_data, passes_data
from ctrace.reports.terminal.graphs.attention import attention_lines
from ctrace.reports.terminal.graphs.passes import passes_lines
from tests.support.golden import WIDTHS, assert_golden, drawn

HOSTILE = "\x1b[31mred\u202e"
SESSION = Session(
    environment=Environment(cwd="/project"),
    passes=(
        Pass("0/0", "remove_identity", "pre_grad", "pre_grad_passes", before=9, after=9),
        Pass(
            "0/0", "pattern_matcher", "joint", "joint_graph_passes", ("pass_pattern_0",), before=30, after=21,
            created_ops={"aten._scaled_dot_product_flash_attention.default": 1},
            erased_ops={"aten.bmm.default": 2, "aten.view.default": 8},
            patterns=(Pattern("_sfdp_pattern_1_inference", 1, 12, ("aten.bmm.default",), ("/project/model.py:9",)),),
            counters={"pattern_matcher_count": 1}, matches=1, counted=1,
        ),
        Pass("0/0", "reinplace", "forward", "post_grad_passes", before=7, after=7, retargeted=(("a", "aten.add", "aten.add_"),)),
        Pass("0/0", HOSTILE, "forward", "post_grad_passes", before=7, after=7, moved=True),
    ),
    attention=(
        Attention("0/0", "joint", None, ("bmm",), ("/project/model.py:9",), "float32", "cpu", matched="_sfdp_pattern_1", axis=-2, trial="values"),
        Attention("0/0", "joint", None, lines=("/project/model.py:20",), why=Why("mask", "_sfdp_pattern_1", also=("cast",))),
        Attention("0/0", "joint", None, lines=(f"/project/{HOSTILE}.py:21",), why=Why(HOSTILE)),
    ),
)  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_screens(width: int):
    assert_golden(f"passes-{width}.txt", drawn(passes_lines(SESSION, runs(SESSION)), width))
    assert_golden(f"attention-{width}.txt", drawn(attention_lines(SESSION, "0/0"), width))


def test_another_graph_has_none():
    assert drawn(passes_lines(SESSION, runs(SESSION, "1/0")), 80) == drawn(attention_lines(SESSION, "1/0"), 80) == ""


def test_data():
    idle, joint, *_ = passes_data(SESSION)
    assert not idle["changed"]
    assert joint["name"] == "pass_pattern_0"
    assert joint["ops"]["aten.view.default"] == -8
    assert joint["patterns"][0]["lines"] == [{"file": "model.py", "line": 9}]
    wrong, masked, _ = attention_data(SESSION)
    assert (wrong["state"], wrong["softmax_dimension"]) == ("wrong", -2)
    assert masked["why"]["also"] == ["cast"]
    json.dumps(passes_data(SESSION) + attention_data(SESSION))
