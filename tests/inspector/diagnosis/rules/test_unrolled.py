"""A run without findings whose graph is mostly one unrolled loop."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import diagnose, trials
from ctrace.inspector.diagnosis.rules.long_loops import moved_body
from ctrace.inspector.diagnosis.sentences import checked
from ctrace.inspector.facts.diagnosis import ApplyKind
from ctrace.inspector.facts.graph_facts import Unrolled
from ctrace.inspector.facts.session import Compilation, Graph, Session
from ctrace.inspector.facts.trial import Part, Trial
from tests.inspector.diagnosis.scenes import FILE, broken, ran

TEXT = """\
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        for t in range(48):
            h = self.cell(x[:, t], h)
        return h"""
PARTS = (Part("model", "Net", FILE, 3, 6), Part("model.cell", "Cell", FILE, 20, 30))
LOOP = Unrolled(FILE, 4, "forward", 48, 960, "0/0")
LAYER = Part("model.cell", "Linear", "/env/torch/nn/modules/linear.py", 20, 30)


def test_the_cell_that_a_long_loop_calls_is_named():
    (only,) = diagnose(ran(TEXT, unrolled=(LOOP,), parts=PARTS)).advice
    assert only.text == (
        "net.py:4: the loop is unrolled 48 times (960 ops). If compiling takes too long, compile what it calls instead "
        "of the whole: `model.cell.forward = torch.compile(model.cell.forward)`."
    )
    assert only.checked is None
    assert only.apply is not None
    assert only.apply.kind is ApplyKind.PLACE


def test_a_layer_of_torch_is_too_small_to_be_compiled_alone():
    (only,) = diagnose(ran(TEXT, unrolled=(LOOP,), parts=(PARTS[0], LAYER))).advice
    assert "model.cell" not in only.text
    assert only.text.startswith("Nothing to fix. At net.py:4")


def test_a_short_loop_and_a_run_with_findings_say_nothing_of_it():
    assert not diagnose(ran(TEXT, unrolled=(replace(LOOP, ops=90),), parts=PARTS)).advice
    found = diagnose(ran(TEXT, broken(5), unrolled=(LOOP,), parts=PARTS)).advice
    assert not any("unrolled" in each.text for each in found)


@pytest.mark.parametrize(("ops", "is_named"), [(300, True), (2000, False)])
def test_a_loop_is_named_by_its_share_of_the_graph(ops: int, is_named: bool):
    run = replace(ran(TEXT, unrolled=(replace(LOOP, ops=200),)), graphs=(Graph("0/0", "forward", FILE, 3, ops),))
    assert bool(diagnose(run).advice) is is_named


RECURRENT = """\
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        h, outs = x.new_zeros(2), []
        for t in range(48):
            now = x[:, t]
            gates = self.i(now) + self.h(h)  # a comment that stays
            h = torch.tanh(gates)
            outs.append(self.o(h))
        return torch.stack(outs), h"""
MOVED = """\
import torch
class Net(torch.nn.Module):
    def step(self, h, now):
        gates = self.i(now) + self.h(h)  # a comment that stays
        h = torch.tanh(gates)
        value_1 = self.o(h)
        return h, value_1

    @torch.compiler.disable(recursive=False)
    def forward(self, x):
        h, outs = x.new_zeros(2), []
        for t in range(48):
            now = x[:, t]
            h, value_1 = self.step(h, now)
            outs.append(value_1)
        return torch.stack(outs), h"""


def test_the_body_of_a_loop_moves_without_its_index_and_its_list():
    moved = moved_body(RECURRENT, 5, "torch")
    assert moved is not None
    assert moved.text == MOVED
    assert (moved.name, moved.first, moved.last) == ("self.step", 7, 8)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("h = torch.tanh(gates)", "h = torch.tanh(gates) * t"),  # needs the index
        ("h = torch.tanh(gates)", "if h.sum() > 0: break"),
        ("h = torch.tanh(gates)", "outs.append(h); h = h + 1"),  # grows in the middle
        ("h = torch.tanh(gates)", "h = (lambda y: y)(gates)"),
        ("    def forward", "    @torch.no_grad()\n    def forward"),
    ],
)
def test_a_body_that_needs_more_of_the_loop_stays(line: str, other: str):
    text = RECURRENT.replace(line, other)
    number = next(number for number, each in enumerate(text.split("\n"), 1) if "for t in" in each)
    assert moved_body(text, number, "torch") is None


def compiled_in(seconds: float) -> Session:
    made = Compilation("0/0", "forward", FILE, 3, seconds=seconds)
    return ran(RECURRENT, unrolled=(replace(LOOP, line=5),), compilations=(made,))


@pytest.mark.parametrize(("after", "is_better"), [(2.0, True), (19.0, False)])
def test_a_trial_compares_the_compile_times(after: float, is_better: bool):
    run = compiled_in(20.0)
    asked: list[tuple[Trial, bool]] = []

    def attempt(trial: Trial, through_backend: bool) -> Session:
        asked.append((trial, through_backend))
        return compiled_in(after)

    done = tuple(trials(run, attempt))
    ((trial, through_backend),) = asked
    assert through_backend  # most compile time comes after Dynamo
    assert trial.sources[0].text == MOVED
    (only,) = diagnose(replace(run, trials=done)).advice
    assert (only.checked is True) is is_better
    if is_better:
        assert only.text.startswith(
            "net.py:5: move lines 7 to 8, the body of the loop, to self.step(), and compile that"
        )
        assert checked(only) == "checked: compile time 20.0 s → 2.0 s"
        assert only.apply is not None
        assert only.apply.kind is ApplyKind.PATCH
    else:
        assert "was tried and takes as long" in only.text
