"""Advice on another place for torch.compile."""

from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import diagnose, trials
from ctrace.inspector.diagnosis.attribute_changes import apply_of, compile_statements, expression_of
from ctrace.inspector.facts.diagnosis import ApplyKind, Counts
from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.session import Coverage, Graph, Session
from ctrace.inspector.facts.trial import LaterCalls, Part, Trial
from tests.inspector.diagnosis.scenes import FILE, LIBRARY, broken, ran, with_trial

TEXT = """\
import torch
class Solve(torch.nn.Module):
    def forward(self, x):
        return solve(self.field, x)
class Field(torch.nn.Module):
    def forward(self, x):
        return self.net(x)"""
TORCH = "/env/lib/python3.11/site-packages/torch/nn/modules/container.py"
PARTS = (
    Part("model", "Solve", FILE, 3, 4, 100),
    Part("model.field", "Field", FILE, 6, 7, 90),
    Part("model.field.net", "Sequential", TORCH, 10, 20),
    Part("model.field.net.0", "Linear", TORCH, 30, 31),
    Part("model.act", "ReLU", TORCH, 40, 41),
)
PATH = ((Frame(FILE, 4, "forward"), Frame(LIBRARY, 70, "solve")),)


def solver(graphs: int = 47, **parts: Any) -> Session:
    run = ran(TEXT, broken(4, "GB0007", paths=PATH, called="", expression="solve(self.field, x)"), parts=PARTS, **parts)
    made = tuple(Graph(f"{number}/0", "forward", FILE, 1, 1) for number in range(graphs))
    return replace(run, graphs=made, coverage=Coverage(100, 90))


FIELD = Trial(parts=("model.field",))


def test_the_largest_module_that_no_break_passes_through_is_tried() -> None:
    tried = [each.trial for each in trials(solver(), lambda _trial, _backend: solver())]
    assert FIELD in tried


def test_it_is_advice_once_its_trial_helped() -> None:
    assert "model.field" not in diagnose(solver()).advice[0].text
    run = with_trial(solver(), FIELD, Counts(1, 0, 0, 60.0))
    run = replace(run, trials=(replace(run.trials[0], compiled=(f"{FILE}:6",)),))
    first = diagnose(run).advice[0]
    assert first.checked
    assert first.text.startswith(
        "net.py:4: compile model.field instead of the whole model: "
        "`model.field.forward = torch.compile(model.field.forward)`."
    )
    assert first.apply is not None
    assert first.apply.kind is ApplyKind.PLACE
    assert first.apply.text == "model.field.forward = torch.compile(model.field.forward)"


def tried_with(graphs: int, coverage: float) -> Session:
    run = with_trial(solver(graphs), FIELD, Counts(1, 0, 0, coverage))
    return replace(run, trials=(replace(run.trials[0], compiled=(f"{FILE}:6",)),))


def test_a_small_part_is_offered_only_in_place_of_many_graphs() -> None:
    assert "model.field" not in diagnose(tried_with(7, 20.0)).advice[0].text
    assert "That pays if it takes most of the time" in diagnose(tried_with(47, 20.0)).advice[0].text


@pytest.mark.parametrize(("coverage", "is_offered"), [(90.0, True), (86.0, True), (84.0, False), (None, False)])
def test_a_break_less_is_not_worth_many_ops_that_leave_the_graph(coverage: float | None, is_offered: bool) -> None:
    """As in a model whose layers compile without its one break, and without all that is around the layers."""
    run = with_trial(solver(1), FIELD, Counts(1, 0, 0, coverage))
    tried = replace(run, trials=(replace(run.trials[0], compiled=(f"{FILE}:6",)),))
    assert any("model.field" in each.text for each in diagnose(tried).advice) is is_offered


def test_a_small_part_without_the_parameters_is_never_offered() -> None:
    run = tried_with(47, 20.0)
    empty = tuple(replace(each, parameters=0) for each in PARTS)
    assert "model.field" not in diagnose(replace(run, parts=empty)).advice[0].text


@pytest.mark.parametrize(("hits_limit", "is_first"), [(False, True), (True, False)])
def test_where_nothing_was_compiled_parts_go_first_even_if_they_recompile(hits_limit: bool, is_first: bool) -> None:
    whole = replace(solver(0), coverage=Coverage(100, 0))
    run = with_trial(whole, FIELD, Counts(2, 0, 1, 23.0))
    tried = replace(run.trials[0], compiled=(f"{FILE}:6",), outlook=LaterCalls(10, 2, 1, hits_limit))
    assert ("model.field" in diagnose(replace(run, trials=(tried,))).advice[0].text) is is_first


def test_a_part_that_no_call_reached_is_not_named() -> None:
    run = with_trial(solver(), FIELD, Counts(1, 0, 0, 80.0))
    assert "model.field" not in diagnose(run).advice[0].text


def test_a_part_that_a_break_passes_through_is_not_compiled() -> None:
    path = ((Frame(FILE, 4, "forward"), Frame(FILE, 7, "forward"), Frame(LIBRARY, 70, "solve")),)
    run = replace(solver(), breaks=(replace(solver().breaks[0], paths=path),))
    offered = [each.trial.parts for each in trials(run, lambda _trial, _backend: run)]
    assert ("model.field.net",) in offered


@pytest.mark.parametrize(
    ("paths", "statements"),
    [
        (
            ["model.blocks.0", "model.blocks.1"],
            ["for part in model.blocks: part.forward = torch.compile(part.forward)"],
        ),
        (["model.blocks.1"], ["model.blocks[1].forward = torch.compile(model.blocks[1].forward)"]),
        (["net"], ["net.forward = torch.compile(net.forward)"]),
    ],
)
def test_statements(paths: list[str], statements: list[str]) -> None:
    assert compile_statements(paths, LISTED) == statements


LISTED = {
    each.path: each
    for each in (
        Part("model.blocks", "ModuleList", TORCH, 1, 2),
        Part("model.blocks.0", "Block", FILE, 6, 7),
        Part("model.blocks.1", "Block", FILE, 6, 7),
        Part("model.heads", "ModuleDict", TORCH, 1, 2),
        Part("model.heads.large", "Block", FILE, 6, 7),
        Part("net", "Net", FILE, 3, 4),
        Part("net.0", "Block", FILE, 6, 7),
    )
}


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("model.blocks.1", "model.blocks[1]"),
        ("model.heads.large", "model.heads['large']"),
        ("net.0", "net.get_submodule('0')"),
    ],
)
def test_how_python_reaches_a_module(path: str, written: str) -> None:
    assert expression_of(path, LISTED) == written
    compile(written, "", "eval")  # it is Python


def test_a_variable_of_a_functions_module_is_read_first() -> None:
    found = apply_of(Trial(parts=("net",)), {}, LISTED.values())
    assert found is not None
    assert found.text == "net = model.__globals__['net']\nnet.forward = torch.compile(net.forward)"
