"""The child process of `ctrace accuracy`: one compiled call a scenario beside eager, and what is wrong in it."""

import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ctrace.inspector.capture.calls.answering import answer
from ctrace.inspector.capture.calls.call_tensors import tensors
from ctrace.inspector.capture.calls.calling import CallResults, called
from ctrace.inspector.capture.calls.model_files import Loaded, load
from ctrace.inspector.capture.calls.ways import Call, Way, training
from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic
from ctrace.inspector.capture.comparing.compare_results import disagreeing
from ctrace.inspector.capture.comparing.eager import EagerRun, Traces
from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.comparing.snapshots import taken
from ctrace.inspector.capture.comparing.verdicts import Court, EagerBudget
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.modules import Preloaded
from ctrace.inspector.capture.core.node_lines import place_of, source_of
from ctrace.inspector.capture.isolation.random_states import seed
from ctrace.inspector.capture.state.state_copies import Copier, copied
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.accuracy_facts import (
    Accuracy,
    Culprit,
    FirstNonfinite,
    NotCompared,
    PathStep,
    Promises,
)
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.features.accuracy.accuracy_request import AccuracyRequest, Drafts
from ctrace.inspector.features.accuracy.child.backward_graphs import BackwardJudge
from ctrace.inspector.features.accuracy.child.error_path import ErrorPath
from ctrace.inspector.features.accuracy.child.kernel_judge import KernelJudge, StoredBuffer, has_nonfinite
from ctrace.inspector.features.accuracy.child.kernel_program import drafts, settings_of_run
from ctrace.inspector.features.accuracy.child.node_values import needed, operator_name
from ctrace.inspector.features.accuracy.child.pieces import COMPILING, PieceFinding, located
from ctrace.inspector.features.accuracy.child.promise_calls import Digests, batch_invariant, row_alone, run_to_run
from ctrace.inspector.features.accuracy.child.stage_graphs import (
    BETWEEN,
    StageJudge,
    WrongStage,
    before_passes,
    stage_of,
)
from ctrace.inspector.features.accuracy.child.watched_kernels import Listener, WatchedGraph, listening, watched
from ctrace.inspector.processes.machine import memory

_SEED = 20
"""Each call starts with the same random numbers, eager and compiled."""
_MOST_LOCATED = 12
"""How many wrong buffers are taken apart; more of one cause say nothing new."""
_MOST_REASONS = 3
_LARGEST = 1e18
"""The largest error that the report has as a number; beyond it, a result is garbage, as NaN and infinities are."""
_NO_COMPILER = "InvalidCxxCompiler"
_COPIES = 4
"""The model, its copy for eager, and one in float64, which is twice as large."""


def main(loaded: frozenset[str]) -> None:
    """Carry out the request."""
    preloaded = Preloaded(loaded)
    answer(AccuracyRequest, lambda request: _answered(request, preloaded))


def _answered(request: AccuracyRequest, preloaded: Preloaded) -> Accuracy | Drafts:
    seed()  # models draw their weights as they are made
    comparison = _Comparison(request, load(request.capture, preloaded))
    try:
        found = comparison.answered()
        return comparison.drafted(found) if request.writes_programs else found
    except Exception as error:
        if _NO_COMPILER in str(error):
            raise TargetError("no C++ compiler works, and kernels run here", "install g++, or set CXX") from error
        raise


class _Comparison:
    """Compares all scenarios of a model with one compiled model."""

    def __init__(self, request: AccuracyRequest, loaded: Loaded) -> None:
        import torch

        self._request = request
        self._options = request.capture.options
        self._model = loaded.model
        self._scenarios = loaded.scenarios
        self._copier = Copier()
        self._judge = KernelJudge(against_eager=request.against_eager)
        self._graphs: list[WatchedGraph] = []
        self._verdicts: list[Judgement | None] = []
        self._not_compared: dict[tuple[str, str], None] = {}
        self._untried: dict[tuple[str, str], None] = {}
        self._promises = Promises()
        self._kernels = self._runs = 0
        self._path: tuple[PathStep, ...] = ()
        self._device = "cpu"
        self._before: dict[int, Any] = {}
        self._wrong_backwards: list[WrongStage] = []
        self._located: dict[Culprit, tuple[StoredBuffer, PieceFinding]] = {}
        self._set = settings_of_run()
        if self._options.train and isinstance(self._model, torch.nn.Module):
            self._model.train()
        self._check_room()
        self._compiled = self._compile()

    def answered(self) -> Accuracy:
        """Compare, and say what is wrong."""
        from torch._functorch import config as of_autograd
        from torch._inductor import config

        with (
            config.patch(COMPILING),
            of_autograd.patch(enable_autograd_cache=False),
            watched() as self._graphs,
            before_passes() as self._before,
        ):
            for name, way in self._chosen().items():
                with training(self._model, way):
                    self._compare(name, way)
        return self._found()

    def _chosen(self) -> Mapping[str, Way]:
        """Return the scenarios to compare.

        Raises:
            TargetError: the model has none of those that the request names.
        """
        wanted = self._request.scenarios
        found = {name: way for name, way in self._scenarios.items() if not wanted or name in wanted}
        if not found:
            raise TargetError(f"the model has no scenario {', '.join(wanted)}", "compare all of them")
        return found

    def drafted(self, found: Accuracy) -> Drafts:
        """Write a culprit as programs: the worst, or that of the site that the request names."""
        import torch

        known = [each for each in found.culprits if each in self._located]
        file, _, line = self._request.site.rpartition(":")
        if self._request.site:
            known = [each for each in known if (each.file or "").endswith(file) and str(each.line) == line]
        versions = str(torch.__version__), platform.python_version()
        if not known:
            return Drafts(found, None, (), *versions)
        return Drafts(found, known[0], tuple(drafts(*self._located[known[0]], self._set)), *versions)

    def _compile(self) -> Any:
        import torch

        options = self._options
        if options.backend not in (None, "inductor"):
            raise TargetError(f"--backend {options.backend}: there are no kernels to compare", "leave it out")
        settings: dict[str, Any] = {"triton.cudagraphs": False}
        if options.mode is not None:
            from torch._inductor import list_mode_options

            if options.mode not in list_mode_options():
                names = ", ".join(list_mode_options())
                raise TargetError(f"--mode {options.mode}: not known to torch.compile", f"there are: {names}")
            settings = {**list_mode_options()[options.mode], **settings}
        self._stages = StageJudge(lambda: self._graphs, settings)
        backend = self._stages.backend
        return torch.compile(self._model, dynamic=options.dynamic, fullgraph=options.fullgraph, backend=backend)

    def _check_room(self) -> None:
        """Refuse a model that does not fit several times into memory.

        Raises:
            TargetError: it does not.
        """
        import torch

        if isinstance(self._model, torch.nn.Module):
            state = [*self._model.parameters(), *self._model.buffers()]
            size = sum(each.numel() * each.element_size() for each in state)
            if _COPIES * size > memory():
                what = f"the model's {size / 1e9:.1f} GB fit into memory fewer than {_COPIES} times"
                raise TargetError(what, "compare a part of it: ctrace accuracy file.py:name, with fewer layers")

    def _compare(self, scenario: str, way: Way) -> None:
        call = way.make()
        self._judge.scenario = scenario
        nonfinite_before = self._judge.nonfinite
        self._device = next((each.device.type for each in tensors(call) if each.device.type != "cpu"), self._device)
        began = time.perf_counter()
        eager = self._eager(call, way)
        seconds = time.perf_counter() - began
        again = self._eager(call, way)
        state = self._state()
        before = self._judge.compared, len(self._judge.wrong), len(self._graphs)
        counting = _Guarded(self._judge, self._stages)
        self._stages.is_active, self._stages.scenario = True, scenario
        compiled = self._call_compiled(call, way, counting)
        self._stages.is_active = False
        self._kernels += counting.kernels
        self._not_compared |= counting.failed
        if not counting.graphs:
            self._not_compared[f"scenario {scenario}", "torch.compile compiled nothing in it"] = None
        if disagreeing(eager, again):
            self._not_compared[f"the result of scenario {scenario}", "two eager calls differ, with one seed"] = None
            self._verdicts.append(None)
        else:
            self._restore(state)
            self._verdicts.append(self._verdict(eager, compiled, call, way, seconds))
        if len(self._judge.wrong) > before[1] and not self._path:
            self._restore(state)
            self._follow(self._judge.wrong[before[1]], call, way)
        is_unexplained = self._verdicts[-1] is Judgement.WRONG and len(self._judge.wrong) == before[1]
        if is_unexplained and self._options.train and not any(each.scenario == scenario for each in self._stages.wrong):
            self._restore(state)
            self._judge_backward(scenario, call, way)
        if self._request.promises and way.kind is ScenarioKind.BASE:
            self._try_promises(call, way, state)
        if not has_nonfinite([*_floats(compiled)]):
            self._judge.nonfinite = nonfinite_before  # those of this scenario do not last, as the infinities of a mask

    def _eager(self, call: Call, way: Way, arithmetic: WatchedArithmetic | None = None) -> CallResults:
        import torch

        model = self._copier.copy(self._model)
        arguments = copied(call)
        if arithmetic is not None:
            model, arguments = arithmetic.model(model), arithmetic.call(arguments)
        torch.manual_seed(_SEED)
        with torch.compiler.set_stance("force_eager"), arithmetic.active() if arithmetic else _nothing():
            return taken(called(model, arguments, way, train=self._options.train)[0])

    def _call_compiled(self, call: Call, way: Way, listener: Listener) -> CallResults:
        import torch

        self._runs += 1
        torch.manual_seed(_SEED)
        with listening(listener):
            return taken(called(self._compiled, copied(call), way, train=self._options.train)[0])

    def _verdict(self, eager: CallResults, compiled: CallResults, call: Call, way: Way, seconds: float) -> Judgement:
        """Judge the whole result, as `explain --build` does."""
        watched_ = WatchedArithmetic()

        def run(arithmetic: WatchedArithmetic) -> EagerRun:
            return EagerRun(self._eager(call, way, arithmetic), None, Traces(), seconds)

        if not disagreeing(eager, compiled):
            return Judgement.FINE
        run(watched_)
        court = Court(EagerRun(eager, None, Traces(), seconds), watched_, run, EagerBudget(), built=True)
        found = court.verdict(compiled)
        if found.judgement is Judgement.UNDECIDED:
            self._not_compared["the whole result", found.why or found.no_reference] = None
        return found.judgement

    def _state(self) -> list[tuple[Any, Any]]:
        import torch

        if not isinstance(self._model, torch.nn.Module):
            return []
        return [(each, each.detach().clone()) for each in (*self._model.parameters(), *self._model.buffers())]

    def _restore(self, state: list[tuple[Any, Any]]) -> None:
        import torch

        with torch.no_grad():
            for tensor, value in state:
                tensor.grad = None
                if not torch.equal(tensor, value):
                    tensor.copy_(value)

    def _follow(self, first: StoredBuffer, call: Call, way: Way) -> None:
        path = ErrorPath(first.graph, first.number)
        self._call_compiled(call, way, _Guarded(path))
        self._path = tuple(path.steps)

    def _judge_backward(self, scenario: str, call: Call, way: Way) -> None:
        judge = BackwardJudge()
        self._stages.backwards = judge
        try:
            self._call_compiled(call, way, _Guarded(judge))
        finally:
            self._stages.backwards = None
        self._wrong_backwards += judge.wrong(self._before, scenario)
        self._not_compared |= judge.not_compared

    def _try_promises(self, call: Call, way: Way, state: list[tuple[Any, Any]]) -> None:
        first, second = Digests(), Digests()
        results = None
        for digests in (first, second):
            self._restore(state)
            results = self._call_compiled(call, way, _Guarded(digests))
        self._promises = run_to_run(self._promises, first, second)
        alone = row_alone(call)
        if alone is None or results is None:
            return
        self._restore(state)
        try:
            of_row = self._call_compiled(alone, way, Listener())
        except Exception as error:
            self._untried["a row alone", kind_and_message(error).splitlines()[0][:200]] = None
            return
        batch = next(each.shape[0] for each in tensors(call) if each.dim())
        self._promises = batch_invariant(self._promises, results, of_row, batch)

    def _found(self) -> Accuracy:
        culprits, pieces = self._culprits()
        culprits = (*culprits, *self._wrong_stages())
        left_out = {**self._judge.not_compared, **self._stages.not_compared, **self._not_compared}
        wrong = any(each is Judgement.WRONG for each in self._verdicts)
        equal = None if left_out else True
        return Accuracy(
            equal=False if culprits or wrong else equal,
            culprits=culprits,
            first_nonfinite=self._first_nonfinite(),
            path=self._path,
            promises=self._promises,
            not_compared=tuple(NotCompared(what, why) for what, why in (*left_out, *self._untried)),
            compared=self._judge.compared,
            kernels=self._kernels,
            graphs=len(self._graphs),
            scenarios=tuple(self._chosen()),
            result=self._result(),
            compiled_runs=self._runs,
            pieces=pieces,
            device=self._device,
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
        for stored in self._judge.wrong[:_MOST_LOCATED]:
            finding = located(stored, reasons, most=_MOST_REASONS, against_eager=self._request.against_eager)
            pieces += finding.tried
            culprit = _culprit(stored, finding)
            key = (culprit.name, culprit.part, culprit.scenario, culprit.file, culprit.line, culprit.ops)
            if key not in found or (culprit.error or math.inf) > (found[key].error or math.inf):
                found[key] = culprit
                self._located[culprit] = stored, finding
        return tuple(sorted(found.values(), key=_badness)), pieces

    def _wrong_stages(self) -> Iterator[Culprit]:
        """Yield what is wrong before the kernels: graphs that are wrong though each of their kernels is right."""
        of_kernels = {stored.graph.part for stored in self._judge.wrong}
        for graph in self._stages.wrong:
            if of_kernels & {each.part for each in graph.lowered}:
                continue
            made = stage_of(graph, self._before)
            if made is None and graph.judged is not None:
                error, eager = graph.judged.error, graph.judged.eager_error
                made = WrongStage("graph", BETWEEN, None, (), error, eager, None, graph.scenario)
            if made is not None:
                yield _stage_culprit(made)
        yield from map(_stage_culprit, self._wrong_backwards)
        wrong = any(each is Judgement.WRONG for each in self._verdicts)
        is_explained = self._judge.wrong or self._stages.wrong or self._options.train
        if wrong and not is_explained and not self._stages.not_compared:
            yield _stage_culprit(WrongStage("graph", "what Dynamo made of the code", None, (), math.inf, 0.0))

    def _first_nonfinite(self) -> FirstNonfinite | None:
        made = self._judge.nonfinite
        if made is None:
            return None
        file, line, _ = place_of(made.node)
        return FirstNonfinite(file, line, operator_name(made.node), made.call.name, made.in_eager)


def _culprit(stored: StoredBuffer, finding: PieceFinding) -> Culprit:
    node = finding.node or stored.node
    file, line, function = place_of(node)
    nodes = [finding.node] if finding.node is not None else needed([stored.node, *stored.writes], stored.known)
    ops = dict.fromkeys(operator_name(each) for each in nodes if each.op == "call_function")
    is_wrong = stored.judgement is Judgement.WRONG
    return Culprit(
        kind="external" if stored.call.is_external else "kernel",
        name=stored.call.name,
        part=stored.graph.part,
        stage=stored.graph.stage,
        scenario=stored.scenario,
        file=file,
        line=line,
        function=function,
        ops=tuple(ops),
        error=_finite(stored.error if finding.error is None else finding.error),
        eager_error=_finite(stored.eager_error if finding.eager_error is None else finding.eager_error),
        against="float64" if is_wrong else "eager",
        source=source_of(file, line),
        reason=finding.reason or None,
        remedy=finding.remedy or None,
        remedy_error=None if finding.remedy_error is None else _finite(finding.remedy_error),
        dtype=_dtype(node.meta.get("val"), stored.value),
    )


def _stage_culprit(made: WrongStage) -> Culprit:
    file, line, function = place_of(made.node)
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
        dtype="" if made.node is None else _dtype(made.node.meta.get("val")),
    )


def _dtype(*values: Any) -> str:
    """Return the dtype of the first tensor; empty: there is none."""
    import torch

    tensors_ = (each for value in values for each in (value if isinstance(value, tuple | list) else (value,)))
    return next((str(each.dtype).removeprefix("torch.") for each in tensors_ if isinstance(each, torch.Tensor)), "")


def _finite(number: float) -> float | None:
    return number if number <= _LARGEST else None


def _badness(culprit: Culprit) -> tuple[Any, ...]:
    """Sort what float64 convicts first, then by how much further it is off than eager."""
    error = math.inf if culprit.error is None else culprit.error
    eager = culprit.eager_error or 0.0
    return culprit.against != "float64", -error / max(eager, 1e-12)


class _Guarded(Listener):
    """Counts the kernels of a call, and passes each on; what fails there is noted, and the model's call goes on."""

    def __init__(self, *inner: Listener) -> None:
        self._inner = inner
        self.kernels = self.graphs = 0
        self.failed: dict[tuple[str, str], None] = {}

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Count a graph."""
        self.graphs += 1
        for each in self._inner:
            self._pass(f"graph {graph.part}", partial(each.entered, graph, args, names))

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """Count a kernel."""
        self.kernels += not graph.calls[number].is_view
        for each in self._inner:
            self._pass(graph.calls[number].name, partial(each.called, graph, number, names))

    def _pass(self, what: str, hand_on: Callable[[], None]) -> None:
        try:
            hand_on()
        except Exception as error:
            self.failed[what, f"comparing it failed: {kind_and_message(error).splitlines()[0][:200]}"] = None


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _floats(results: CallResults) -> Iterator[Any]:
    from torch.utils import _pytree

    yield from _pytree.tree_leaves((results.outputs, results.gradients))
