"""Root causes: every finding is in exactly one, unrelated findings stay separate, and ids are stable."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.root_causes import FIRST_WORDINGS, root_causes
from ctrace.inspector.facts.diagnosis import Finding, RootKind, Symptom
from ctrace.inspector.facts.findings import BreakKind, Cause, CauseKind, Cost, Frame, Recompile, Skip
from ctrace.inspector.facts.passes import Attention
from ctrace.inspector.facts.session import Compilation, Failure, FailurePhase, Session
from ctrace.inspector.findings.graphs.attention_view import AttentionState, answer_of, state_of
from ctrace.inspector.knowledge.advice import entries
from ctrace.inspector.runs.load import load_log
from ctrace.inspector.source.source_names import RESULT
from tests.inspector.diagnosis.scenes import FILE, broken, ran
from tests.support import fusions, guarded, kernelsessions, recompiled, sessions, targeted, userkernels
from tests.support.helpers import MODEL
from tests.support.places import DATA, ROOT
from tests.support.sampling import sampled

MADE = {
    **sessions.ALL,
    "many": sessions.MANY,
    "kernels": kernelsessions.KERNELS,
    "emitted": targeted.EMITTED,
    "user-kernels": userkernels.SESSION,
    "fused": fusions.FUSED,
    "guarded": guarded.GUARDED,
    "recompiled": recompiled.SEVERAL,
}


def test_every_kind_of_recompilation_is_a_kind_of_cause():
    """A root cause takes the kind of the change that leads it, by its name."""
    assert {str(kind) for kind in CauseKind} <= {str(kind) for kind in RootKind}


def findings(session: Session) -> Iterator[Symptom]:
    """List the findings that causes have to cover, independently of how causes are built."""
    if session.failure is not None:
        yield Symptom(Finding.FAILURE)
    lists = (session.breaks, session.skips, session.recompiles, session.dangers)
    whats = (Finding.BREAK, Finding.SKIP, Finding.RECOMPILE, Finding.DANGER)
    for what, found in zip(whats, lists, strict=True):
        yield from (Symptom(what, index) for index, _ in enumerate(found))
    missed = [
        index
        for index, each in enumerate(session.attention)
        if state_of(each) not in (AttentionState.FUSED, AttentionState.MATCHED)
    ]
    yield from (Symptom(Finding.ATTENTION, index) for index in missed)


def check_each_once(session: Session) -> None:
    explained = Counter(symptom for cause in root_causes(session) for symptom in cause.symptoms)
    assert explained == Counter(findings(session))
    ids = [cause.id for cause in root_causes(session)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("log", sampled(sorted(DATA.glob("*.log"))), ids=lambda log: log.stem)
def test_each_finding_of_a_recorded_run_is_in_one_cause(log: Path) -> None:
    check_each_once(load_log(log))


@pytest.mark.parametrize("name", MADE)
def test_each_finding_of_a_made_session_is_in_one_cause(name: str) -> None:
    check_each_once(MADE[name])


@pytest.mark.parametrize("log", ["break_in_with", "rewritten", "sizes", "trained"])
def test_ids_are_the_same_in_each_load(log: str) -> None:
    first, second = (root_causes(load_log(DATA / f"{log}.log")) for _ in range(2))
    assert first == second


def test_ids_stay_when_lines_move() -> None:
    session = load_log(DATA / "rewritten.log")
    moved = replace(session, breaks=tuple(replace(each, line=each.line + 7) for each in session.breaks))
    assert [each.id for each in root_causes(moved)] == [each.id for each in root_causes(session)]


def test_another_wording_keeps_the_id() -> None:
    """An attention has no source line, so its id comes from the first wording of its title."""
    (cause,) = (each for each in root_causes(load_log(DATA / "trained.log")) if each.kind is RootKind.ATTENTION)
    assert cause.id == "attention-e6092d1d"


@pytest.mark.parametrize("now", FIRST_WORDINGS)
def test_titles_that_were_reworded_are_those_of_today(now: str) -> None:
    """A title that is reworded again needs an entry from its new to its first wording."""
    called, written = (
        Attention("sdpa", (), (), "", "", (), 0, lines=(), graph="0/0", stage="joint"),
        Attention(None, (), (), "", "", (), 0, lines=(), graph="0/0", stage="joint"),
    )
    replaced = replace(written, matched="_sfdp_pattern_1")
    attentions = (called, written, replaced, replace(replaced, trial="values"), replace(written, certain=False))
    titles = [
        *(answer_of(each).sentence for each in attentions),
        *(entry.title for entry in entries("breaks").values()),
    ]
    assert any(f"{title[:1].upper()}{title[1:]}".startswith(now) or title.startswith(now) for title in titles)


def test_different_statements_are_different_causes() -> None:
    """Equal positions in the lists of findings or keys do not make a common cause."""
    breaks = tuple(sessions.bare_break(line=line, source=f"f{line}(x)", expression=f"f{line}(x)") for line in range(6))
    assert [each.symptoms for each in root_causes(Session(breaks=breaks))] == [
        (Symptom(Finding.BREAK, index),) for index in range(6)
    ]


def test_a_statement_in_all_layers_is_one_cause() -> None:
    layers = tuple(sessions.bare_break(function=f"layer{number}", times=2) for number in range(4))
    (cause,) = root_causes(Session(breaks=layers))
    assert len(cause.symptoms) == 4


def test_a_function_that_a_break_left_in_eager_belongs_to_the_break() -> None:
    skip = Skip("helper", sessions.MODEL, 31, "It has a break in a loop.", break_index=1)
    breaks = (sessions.bare_break(), sessions.bare_break(line=30, source="g(x)", expression="g(x)"))
    found = root_causes(Session(breaks=breaks, skips=(skip,)))
    assert {len(each.symptoms) for each in found} == {1, 2}
    assert next(each for each in found if len(each.symptoms) == 2).line == 30


def recompile(number: int, *causes: Cause, function: str = "forward") -> Recompile:
    return Recompile(f"0/{number}", function, sessions.MODEL, 8, expected=False, causes=causes)


def test_one_value_that_goes_on_changing_is_one_cause_with_its_seconds() -> None:
    values = [Cause(CauseKind.ATTRIBUTE_VALUE, "self.n", str(value), str(value + 1)) for value in range(3)]
    made = tuple(recompile(number + 1, cause) for number, cause in enumerate(values))
    timed = tuple(Compilation(each.compilation, "forward", sessions.MODEL, 8, seconds=0.5) for each in made)
    (cause,) = root_causes(Session(recompiles=made, compilations=timed))
    assert (cause.kind, cause.cost.graphs, cause.cost.seconds) == (RootKind.ATTRIBUTE_VALUE, 3, 1.5)
    assert cause.title == "self.n changed: 0 → 1 → 2 → 3"


def test_other_values_are_other_causes() -> None:
    first = recompile(1, Cause(CauseKind.ATTRIBUTE_VALUE, "self.n", "0", "1"))
    second = recompile(2, Cause(CauseKind.DTYPE, "x.dtype", "float32", "float64"))
    assert len(root_causes(Session(recompiles=(first, second)))) == 2


def test_a_switch_of_modes_is_one_cause_for_all_functions() -> None:
    switched = [
        recompile(1, Cause(CauseKind.TRAINING_MODE, f"self.{name}.training", "True", "False"), function=name)
        for name in "ab"
    ]
    assert len(root_causes(Session(recompiles=tuple(switched)))) == 1


def test_the_costliest_comes_first_and_a_failure_before_all() -> None:
    breaks = (
        sessions.bare_break(line=1, source="a(x)", expression="a(x)", cost=Cost(1, 1)),
        sessions.bare_break(line=2, source="b(x)", expression="b(x)", cost=Cost(9, 1)),
    )
    session = Session(breaks=breaks)
    assert [each.line for each in root_causes(session)] == [2, 1]
    failure = Failure(FailurePhase.RUN, "ValueError", "no")
    assert root_causes(replace(session, failure=failure))[0].kind is RootKind.FAILURE


LAYERS = """\
def layer(x):
    return x / torch.bincount(x)

def net(x):
    for _ in range(2):
        x = layer(x)
"""


def test_layers_that_a_break_made_calls_of_their_own_recompile_for_it() -> None:
    """The first layer gets data, the second one a result that needs a gradient."""
    path = (Frame(MODEL, 6, "net"), Frame(MODEL, 2, "layer"))
    count = sessions.bare_break(file=MODEL, line=2, source="", function="layer", paths=(path[1:], path))
    caller = Skip("net", MODEL, 4, "", break_index=0)
    grad = Cause(CauseKind.REQUIRES_GRAD, "x.requires_grad", "False", "True")
    again = Recompile("1/1", "layer", MODEL, 1, False, (grad,))
    run = Session(breaks=(count,), skips=(caller,), recompiles=(again,), listings={MODEL: LAYERS})
    assert len(root_causes(run)) == 1
    assert len(root_causes(replace(run, recompiles=(replace(again, line=4),)))) == 2
    weight = replace(grad, subject="self.weight.requires_grad")
    assert len(root_causes(replace(run, recompiles=(replace(again, causes=(weight,)),)))) == 2


def test_breaks_whose_results_both_change_stay_apart() -> None:
    clock, number = (
        sessions.bare_break(file=MODEL, line=line, source=text, expression=text)
        for line, text in ((2, "perf_counter()"), (3, "x.item()"))
    )
    changed = tuple(Cause(CauseKind.BREAK_RESULT, "the value", "1", "2", line, file=MODEL) for line in (2, 3))
    again = Recompile("1/1", "f", MODEL, 2, False, changed)
    causes = root_causes(Session(breaks=(clock, number), recompiles=(again,)))
    assert [len(each.symptoms) for each in causes] == [2, 1]


def test_the_result_of_each_break_is_a_value_of_its_own() -> None:
    """Torch calls both `___stack0`, and its log does not say what they became."""
    index, norm = (
        sessions.bare_break(file=MODEL, line=line, source=text, expression=text)
        for line, text in ((12, "best.item()"), (14, "y.norm().item()"))
    )
    again = tuple(
        Recompile(f"{line}/1", "forward", MODEL, line, False, (cause,))
        for line in (14, 12)
        for cause in [Cause(CauseKind.BREAK_RESULT, RESULT, "0", None, line, file=MODEL)]
    )
    causes = root_causes(Session(breaks=(norm, index), recompiles=again))
    assert {each.line: len(each.symptoms) for each in causes} == {12: 2, 14: 2}


def test_a_container_that_grows_belongs_to_the_break_that_stores_in_it() -> None:
    """The first of its recompilations is for the result of an earlier break, too."""
    branch, stored = (
        sessions.bare_break(file=MODEL, line=line, source=text, expression=text)
        for line, text in ((2, "loss.item()"), (3, "float(loss)"))
    )
    result = Cause(CauseKind.BREAK_RESULT, RESULT, "1.5", "2.5", 2, file=MODEL)
    grows = [Cause(CauseKind.LENGTH, "len(history)", str(n), str(n + 1), 3, file=MODEL) for n in range(3)]
    again = [
        Recompile(f"1/{n + 1}", "f", MODEL, 2, False, (result, cause) if not n else (cause,))
        for n, cause in enumerate(grows)
    ]
    causes = root_causes(Session(breaks=(branch, stored), recompiles=tuple(again)))
    assert [(each.line, len(each.symptoms)) for each in causes] == [(3, 4), (2, 1)]


def test_a_call_that_dynamo_is_kept_out_of_is_no_number_of_a_tensor() -> None:
    """In pack_padded_sequence(x, lengths.tolist()), the call breaks without tolist(), too."""
    breaks = [
        sessions.bare_break(gb=(gb,), line=2, source="pack(x, n.tolist())", expression=text)
        for gb, text in (("GB0033", "n.tolist()"), ("GB0007", "pack(x, n.tolist())"))
    ]
    assert len(root_causes(Session(breaks=tuple(breaks)))) == 2


def test_a_call_disabled_on_purpose_ranks_by_its_cost() -> None:
    breaks = (
        sessions.bare_break(line=1, source="a(x)", expression="a(x)", cost=Cost(1, 1)),
        sessions.bare_break(
            line=2, source="b(x)", expression="b(x)", called="b", kind=BreakKind.DISABLED, cost=Cost(9, 1)
        ),
    )
    assert [each.line for each in root_causes(Session(breaks=breaks))] == [2, 1]


def test_a_raw_check_of_a_tensor_is_said_in_words() -> None:
    reason = "0/0: TENSOR_MATCH: check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.float32, device=None)"
    (cause,) = root_causes(Session(recompiles=(replace(recompile(1), reason=reason),)))
    assert cause.why == "0/0: a property of the tensor `x` differs"


def test_every_kind_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert [kind for kind in RootKind if f"`{kind}`" not in page] == []


def test_a_root_cause_can_be_of_every_kind_of_cause() -> None:
    assert {str(kind) for kind in CauseKind} <= {str(kind) for kind in RootKind}


def test_a_comprehension_that_breaks_alone_follows_from_the_break_around_it() -> None:
    text = "import torch\ndef forward(self, x):\n    n = x.max().item()\n    return [x + i for i in range(n)]"
    outer = Frame(FILE, 3, "forward")
    inner = Frame(FILE, 4, "<listcomp>")
    alone = broken(
        4,
        "GB4347",
        called="next(list_iterator)",
        inside=inner,
        paths=((Frame(FILE, 4, "forward"), inner),),
        cost=Cost(9),
    )
    run = ran(text, broken(3, paths=((outer,),)), alone)
    (cause,) = root_causes(run)
    assert (cause.line, len(cause.symptoms)) == (3, 2)
    (only,) = root_causes(ran(text, alone))
    assert only.line == 4


def test_a_generator_expression_of_a_function_in_eager_follows_from_the_break_there() -> None:
    text = "def forward(self, x):\n    y = self.rnn(x)\n    return sum(i for i in y.tolist())"
    broken_there = Skip("forward", FILE, 1, "it breaks in a comprehension", break_index=0, rule="unresumable")
    alone = Skip("<genexpr>", FILE, 3, "a generator", rule="generator")
    (cause,) = root_causes(ran(text, broken(2), skips=(broken_there, alone)))
    assert (cause.line, len(cause.symptoms)) == (2, 3)
    assert len(root_causes(ran(text, broken(2), skips=(alone,)))) == 2


def test_an_object_that_cannot_be_made_again_follows_from_the_break_at_its_line() -> None:
    text = "def forward(self, x):\n    for layer in self.layers:\n        if x.sum() > 0:\n            return x"
    alone = broken(3, "GB0092", cost=Cost(9))
    (cause,) = root_causes(ran(text, broken(3, "GB0170"), alone))
    assert (cause.kind, len(cause.symptoms)) == (RootKind.TENSOR_BRANCH, 2)
    assert len(root_causes(ran(text, broken(3, "GB0170", compilations=("1/0",)), alone))) == 2
