"""Passes and attention on a screen, and as JSON data."""

import json

import pytest

from ctrace.inspector.facts.passes import Attention, Pass, Pattern, WhyNotFused
from ctrace.inspector.facts.session import Environment, Session
from ctrace.inspector.findings.graphs.attention_view import answers
from ctrace.inspector.findings.graphs.passes_view import runs
from ctrace.reports.json.printer import plain
from ctrace.reports.terminal.node_screen import attention_item
from ctrace.reports.terminal.stage_diff_screen import passes_lines
from tests.support.golden import WIDTHS, assert_golden, drawn

CWD = "/project"
HOSTILE = "\x1b[31mred\u202e"
SESSION = Session(
    environment=Environment(cwd=CWD),
    passes=(
        Pass("remove_identity", "pre_grad", (), 9, subsystem="pre_grad_passes", after=9, graph="0/0"),
        Pass(
            "pattern_matcher", "joint", ("pass_pattern_0",), 30, subsystem="joint_graph_passes", after=21,
            created_ops={"aten._scaled_dot_product_flash_attention.default": 1},
            erased_ops={"aten.bmm.default": 2, "aten.view.default": 8},
            patterns=(Pattern("_sfdp_pattern_1_inference", 1, 12, ("aten.bmm.default",), (), ("/project/model.py:9",)),),
            counters={"pattern_matcher_count": 1}, matches=1, counted=1, graph="0/0",
        ),
        Pass(
            "reinplace", "forward", (), 7, subsystem="post_grad_passes", after=7,
            retargeted=(("a", "aten.add", "aten.add_"),), graph="0/0",
        ),
        Pass(HOSTILE, "forward", (), 7, subsystem="post_grad_passes", after=7, moved=True, graph="0/0"),
    ),
    attention=(
        Attention(
            None, ("bmm",), (), "float32", "cpu", (), 0, lines=("/project/model.py:9",), matched="_sfdp_pattern_1",
            axis=-2, trial="values", graph="0/0", stage="joint",
        ),
        Attention(
            None, (), (), "", "", (), 0, lines=("/project/model.py:20",),
            why=WhyNotFused("mask", (), "_sfdp_pattern_1", also=("cast",)), graph="0/0", stage="joint",
        ),
        Attention(
            None, (), (), "", "", (), 0, lines=(f"/project/{HOSTILE}.py:21",), why=WhyNotFused(HOSTILE, ()), graph="0/0",
            stage="joint",
        ),
    ),
)  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_screens(width: int):
    assert_golden(f"passes-{width}.txt", drawn(passes_lines(runs(SESSION), CWD), width))
    attention = [attention_item(each, CWD) for each in answers(SESSION, "0/0")]
    assert_golden(f"attention-{width}.txt", drawn(attention, width))


def test_another_graph_has_none():
    assert (runs(SESSION, "1/0"), answers(SESSION, "1/0")) == ((), ())


def test_data():
    passes, attention = plain(SESSION.passes, CWD), plain(answers(SESSION), CWD)
    idle, joint, *_ = passes
    assert not idle["changed"]
    assert joint["name"] == "pass_pattern_0"
    assert joint["ops"]["aten.view.default"] == -8
    assert joint["patterns"][0]["lines"] == [{"file": "model.py", "line": 9}]
    wrong, masked, _ = attention
    assert (wrong["state"], wrong["softmax_dimension"]) == ("wrong", -2)
    assert masked["why"]["also"] == ["cast"]
    json.dumps(passes + attention)
