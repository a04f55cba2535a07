"""The outcome of each attention, in words."""

import re

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.passes import Attention, WhyNotFused
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.attention_view import AttentionState, answers, short, unfused
from ctrace.inspector.knowledge.advice import entries

FLASH = ("aten._scaled_dot_product_flash_attention",)
BY_HAND = Attention(
    None, (), (), "float32", "cpu", (), 0, lines=("model.py:9",), axis=-1, graph="0/0", stage="inference"
)
CASES = {
    AttentionState.FUSED: replace(BY_HAND, call="scaled_dot_product_attention", fused=FLASH),
    AttentionState.NOT_FUSED: replace(
        BY_HAND, call="scaled_dot_product_attention", why=WhyNotFused("math_dropout", ())
    ),
    AttentionState.MATCHED: replace(BY_HAND, matched="_sfdp_pattern_1_inference", fused=FLASH, counted=1),
    AttentionState.MATCHED_NOT_FUSED: replace(BY_HAND, matched="_sfdp_pattern_3_training", counted=2),
    AttentionState.WRONG: replace(
        BY_HAND, matched="_sfdp_pattern_1_inference", fused=FLASH, counted=1, axis=-2, trial="values"
    ),
    AttentionState.NOT_MATCHED: replace(BY_HAND, why=WhyNotFused("no_maximum", ())),
}


@pytest.mark.parametrize("state", CASES)
def test_each_state_has_its_words(state: AttentionState):
    (answer,) = answers(Session(attention=(CASES[state],)))
    assert answer.state is state
    assert answer.sentence
    assert "{" not in answer.sentence
    assert bool(answer.why) == bool(answer.fix) == answer.is_slow
    assert answer.is_slow == (state not in (AttentionState.FUSED, AttentionState.MATCHED))


@pytest.mark.parametrize("code", entries("attention"))
def test_every_code_is_filled_in(code: str):
    why = WhyNotFused(code, (), "_sfdp_pattern_5", "aten.mul", "aten.div", "aten.add", "query", 3, ("cast",))
    (answer,) = answers(Session(attention=(replace(BY_HAND, why=why),)))
    assert not re.search(r"\{\w+\}", answer.why + answer.fix)
    assert answer.title == entries("attention")[code].title
    assert ("Other obstacles: a change of dtype." in answer.why) == (code != "cast")


def test_a_code_of_a_newer_ctrace_is_shown_as_it_is():
    (answer,) = answers(Session(attention=(replace(BY_HAND, why=WhyNotFused("moonlight", ())),)))
    assert (answer.why, answer.title) == ("(moonlight)", "moonlight")


def test_layers_that_are_alike_are_told_once():
    session = Session(
        attention=(CASES[AttentionState.MATCHED], CASES[AttentionState.MATCHED], CASES[AttentionState.NOT_MATCHED])
    )
    assert [each.times for each in answers(session)] == [2, 1]
    assert [each.state for each in unfused(session)] == [AttentionState.NOT_MATCHED]
    assert short(answers(session)) == "2 of 3 attentions fused"
    assert short(answers(session, "1/0")) == ""
    assert short(answers(Session(attention=(CASES[AttentionState.FUSED],)))) == "attention fused"
