"""What a comparison has found so far, joined to the answer of `ctrace accuracy`."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.core.node_lines import place_of, source_of
from ctrace.inspector.facts.accuracy_facts import (
    LARGEST,
    Accuracy,
    Culprit,
    FirstNonfinite,
    NotCompared,
    PathStep,
    Promises,
)
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.features.accuracy.accuracy_request import AccuracyRequest
from ctrace.inspector.features.accuracy.child.kernel_judge import MOST_LOCATED, KernelJudge, SizeLimit, StoredBuffer
from ctrace.inspector.features.accuracy.child.node_values import name_in_eager, needed, operator_name
from ctrace.inspector.features.accuracy.child.pieces import PieceFinding, located
from ctrace.inspector.features.accuracy.child.stage_graphs import (
    BETWEEN,
    DynamoGraph,
    StageJudge,
    WrongStage,
    stage_of,
)
from ctrace.inspector.features.accuracy.child.stage_reasons import StageReasons
from ctrace.inspector.features.accuracy.child.training_steps import StepsTrained
from ctrace.inspector.features.accuracy.child.watched_kernels import WatchedGraph

# Chosen: each reason is a compilation of its own, and the worst findings come first.
_MOST_REASONS = 3


class Findings:
    """What was compared, what is wrong, and what was not compared."""

    def __init__(self, request: AccuracyRequest, settings: dict[str, Any]) -> None:
        self._request = request
        self._options = request.capture.options
        limit = SizeLimit(request.max_bytes)
        self._judge = KernelJudge(against_eager=request.against_eager, limit=limit)
        self._stages = StageJudge(lambda: self._graphs, settings, limit)
        self._graphs: list[WatchedGraph] = []
        self._before: dict[int, Any] = {}
        self._verdicts: list[Judgement | None] = []
        self._not_compared: dict[tuple[str, str], None] = {}
        self._untried: dict[tuple[str, str], None] = {}
        self._promises = Promises()
        self._kernels = self._runs = 0
        self._path: tuple[PathStep, ...] = ()
        self._device = "cpu"
        self._wrong_backwards: list[WrongStage] = []
        self._located: dict[Culprit, tuple[StoredBuffer, PieceFinding]] = {}
        self._located_stages: dict[Culprit, tuple[DynamoGraph, WrongStage]] = {}
        self._names: tuple[str, ...] = ()
        self._trained = StepsTrained()
        self._program: str | None = None

    def _found(self) -> Accuracy:
        culprits, pieces = self._culprits()
        reasons = StageReasons()
        culprits = (*culprits, *self._wrong_stages(reasons))
        pieces += reasons.tried
        left_out = {
            **self._judge.not_compared,
            **self._stages.not_compared,
            **self._not_compared,
            **self._trained.undecided,
        }
        wrong = any(each is Judgement.WRONG for each in self._verdicts) or any(
            each.parted for each in self._trained.steps
        )
        equal = None if left_out else True
        untried = {**self._untried, **self._trained.untried, **reasons.untried}
        return Accuracy(
            equal=False if culprits or wrong else equal,
            culprits=culprits,
            first_nonfinite=self._first_nonfinite(culprits),
            path=self._path,
            promises=self._promises,
            not_compared=tuple(NotCompared(what, why) for what, why in {**left_out, **untried}),
            compared=self._judge.compared,
            kernels=self._kernels,
            graphs=sum(each.stage != Stage.BACKWARD for each in self._graphs),
            scenarios=self._names,
            result=self._result(),
            compiled_runs=self._runs,
            pieces=pieces,
            device=self._device,
            steps=tuple(self._trained.steps),
            training=self._trained.summary,
            program=self._program,
        )

    def _result(self) -> str:
        if any(each is Judgement.WRONG for each in self._verdicts):
            return "wrong"
        if any(each in (None, Judgement.UNDECIDED) for each in self._verdicts) or not self._verdicts:
            return "not_compared"
        return "rounding"

    def _culprits(self) -> tuple[tuple[Culprit, ...], int]:
        found: dict[tuple[Any, ...], Culprit] = {}
        pieces = 0
        reasons: dict[tuple[Any, ...], PieceFinding] = {}
        for stored in self._judge.wrong[:MOST_LOCATED]:
            finding = located(stored, reasons, most=_MOST_REASONS, against_eager=self._request.against_eager)
            pieces += finding.tried
            self._untried |= {(f"the reason why {stored.call.name} went wrong", why): None for why in finding.failed}
            culprit = _culprit(stored, finding)
            key = (culprit.name, culprit.part, culprit.scenario, culprit.file, culprit.line, culprit.ops)
            # One kernel may store several wrong values for a line: the worst stands for all of them.
            if key not in found or (culprit.error or math.inf) > (found[key].error or math.inf):
                found[key] = culprit
                self._located[culprit] = stored, finding
        return tuple(sorted(found.values(), key=_badness)), pieces

    def _wrong_stages(self, reasons: StageReasons) -> Iterator[Culprit]:
        """Yield what is wrong before the kernels: graphs that are wrong though each of their kernels is right."""
        of_kernels = {stored.graph.part for stored in self._judge.wrong}
        for graph in self._stages.wrong:
            parts = {each.part for each in graph.lowered}
            # A wrong kernel makes its graph wrong, which says nothing of the passes before it.
            if of_kernels & parts:
                continue
            of = stage_of(graph, self._before)
            # A kernel that was not compared may be the wrong one: then no stage is accused.
            if of is None and graph.judged is not None and not self._judge.open_parts & parts:
                error, eager = graph.judged.error, graph.judged.eager_error
                of = WrongStage(
                    kind="graph",
                    name=BETWEEN,
                    node=None,
                    ops=(),
                    error=error,
                    eager_error=eager,
                    part=None,
                    scenario=graph.scenario,
                    step=graph.step,
                )
            if of is not None:
                culprit = _stage_culprit(reasons.explained(graph, of))
                self._located_stages[culprit] = graph, of
                yield culprit
        for made in self._wrong_backwards:
            culprit = _stage_culprit(reasons.explained(made.found, made) if made.found is not None else made)
            if made.found is not None:
                self._located_stages[culprit] = made.found, made
            yield culprit
        wrong = any(each is Judgement.WRONG for each in self._verdicts)
        is_explained = self._judge.wrong or self._stages.wrong or self._options.train
        # A graph that was not compared may be the wrong one, so Dynamo is accused only where all were.
        if wrong and not is_explained and not self._stages.not_compared:
            yield _stage_culprit(WrongStage("graph", "what Dynamo made of the code", None, (), math.inf, 0.0))

    def _first_nonfinite(self, culprits: Sequence[Culprit]) -> FirstNonfinite | None:
        made = self._judge.nonfinite
        if made is None:
            return self._trained.nonfinite
        file, line, _ = place_of(made.node)
        op, stage = operator_name(made.node), made.graph.stage
        # A wrong decomposition computes it from operations that eager does not run.
        replaced = any(
            (each.kind, each.file, each.line, each.error) == ("decomposition", file, line, None) for each in culprits
        )
        return FirstNonfinite(file, line, op, made.call.name, made.in_eager and not replaced, stage, made.step)


def _culprit(stored: StoredBuffer, finding: PieceFinding) -> Culprit:
    node = finding.node or stored.node
    file, line, function = place_of(node)
    if finding.node is not None:
        nodes = [finding.node]
    else:
        nodes = needed([stored.node, *stored.writes], stored.known)
    ops = dict.fromkeys(name_in_eager(each) for each in nodes if each.op == "call_function")
    kind = "external" if stored.call.is_external else "kernel"
    if finding.error is None:
        error = stored.error
    else:
        error = finding.error
    if finding.eager_error is None:
        eager_error = stored.eager_error
    else:
        eager_error = finding.eager_error
    against = "float64" if stored.judgement is Judgement.WRONG else "eager"
    remedy_error = None
    if finding.remedy_error is not None:
        remedy_error = _finite(finding.remedy_error)
    return Culprit(
        kind=kind,
        name=stored.call.name,
        part=stored.graph.part,
        stage=stored.graph.stage,
        scenario=stored.scenario,
        file=file,
        line=line,
        function=function,
        ops=tuple(ops),
        error=_finite(error),
        eager_error=_finite(eager_error),
        against=against,
        source=source_of(file, line),
        reason=finding.reason or None,
        remedy=finding.remedy or None,
        remedy_error=remedy_error,
        step=stored.step,
        dtype=_dtype(node.meta.get("val"), stored.value),
    )


def _stage_culprit(made: WrongStage) -> Culprit:
    file, line, function = place_of(made.node)
    remedy_error = None
    if made.remedy_error is not None:
        remedy_error = _finite(made.remedy_error)
    return Culprit(
        kind=made.kind,
        name=made.name,
        part=made.part,
        stage=made.stage,
        scenario=made.scenario,
        file=file,
        line=line,
        function=function,
        ops=made.ops,
        error=_finite(made.error),
        eager_error=_finite(made.eager_error),
        against="float64",
        source=source_of(file, line),
        reason=made.reason or None,
        remedy=made.remedy or None,
        remedy_error=remedy_error,
        step=made.step,
        dtype="" if made.node is None else _dtype(made.node.meta.get("val")),
    )


def _dtype(*values: Any) -> str:
    """Return the dtype of the first tensor; empty: there is none."""
    import torch

    tensors_ = (each for value in values for each in (value if isinstance(value, tuple | list) else (value,)))
    return next((str(each.dtype).removeprefix("torch.") for each in tensors_ if isinstance(each, torch.Tensor)), "")


def _finite(number: float) -> float | None:
    if number <= LARGEST:
        return number
    return None


def _badness(culprit: Culprit) -> tuple[Any, ...]:
    """Sort what float64 convicts first, then by how much further it is off than eager."""
    if culprit.error is None:
        error = math.inf
    else:
        error = culprit.error
    eager = culprit.eager_error or 0.0
    return culprit.against != "float64", -error / max(eager, 1e-12)
