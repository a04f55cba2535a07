"""The child process of `ctrace accuracy`: one compiled call a scenario beside eager, and what is wrong in it.

1. A model is called in each scenario, compiled beside eager, and each of its graphs is judged. Of a program, the first
   call of each graph that it compiles is, forward and backward.
2. An error is followed from the kernel that makes it to the result: each later kernel beside float64.
3. Two promises are tried, bit for bit: the same call twice, and a row alone and in its batch.

A program runs as Python would run it. Where it calls Inductor (2.13, _inductor/compile_fx.py:compile_fx, which
`torch.compile` imports at each compilation), its graphs are generated with the lines that tell of each kernel. Nothing
is patched or set before the program itself imports this module of torch, and settings are those of one compilation.
What it draws, writes and records stays its own: see `modes_off` and `why_not_again`.
"""

import os
import platform
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.calls.answering import answer
from ctrace.inspector.capture.calls.call_tensors import mapped, tensors
from ctrace.inspector.capture.calls.calling import CallResults, called
from ctrace.inspector.capture.calls.compiler_names import check_mode, settings_of_mode
from ctrace.inspector.capture.calls.model_files import Loaded, load
from ctrace.inspector.capture.calls.program_run import ending_of, run_program
from ctrace.inspector.capture.calls.ways import Call, Way, training
from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic
from ctrace.inspector.capture.comparing.compare_results import disagreeing
from ctrace.inspector.capture.comparing.eager import EagerError, EagerRun, Traces
from ctrace.inspector.capture.comparing.float64 import Float64
from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.comparing.snapshots import taken
from ctrace.inspector.capture.comparing.state_copies import Copier, copied
from ctrace.inspector.capture.comparing.verdicts import Court, EagerBudget
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.imports import Preloaded, watch_imports
from ctrace.inspector.capture.core.node_lines import place_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.isolation.private_copies import free_memory
from ctrace.inspector.capture.isolation.random_states import seed
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.accuracy_facts import LARGEST, Accuracy, PathStep, Promises
from ctrace.inspector.facts.outcome import ENDED_WELL
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.features.accuracy.accuracy_request import AccuracyRequest, Drafts
from ctrace.inspector.features.accuracy.child.backward_graphs import BackwardJudge
from ctrace.inspector.features.accuracy.child.kernel_judge import (
    StoredBuffer,
    distance,
    has_nonfinite,
    stored_nodes,
    widened,
    writes_until,
)
from ctrace.inspector.features.accuracy.child.kernel_program import drafts, settings_of_run, stage_drafts
from ctrace.inspector.features.accuracy.child.node_values import (
    NotComputableError,
    Values,
    cannot_repeat,
    computed,
    in_program,
    modes_off,
    needed,
)
from ctrace.inspector.features.accuracy.child.numeric_findings import Findings
from ctrace.inspector.features.accuracy.child.pieces import COMPILING
from ctrace.inspector.features.accuracy.child.stage_graphs import before_passes
from ctrace.inspector.features.accuracy.child.training_steps import SideBySide, copies
from ctrace.inspector.features.accuracy.child.watched_kernels import (
    CountingListener,
    Listener,
    WatchedGraph,
    listening,
    watched,
)
from ctrace.inspector.processes.machine import memory
from ctrace.inspector.runs.capture_request import Options, is_inductor
from ctrace.inspector.runs.tasks import TaskError

_SETTINGS = {
    "fx_graph_cache": False,
    "fx_graph_remote_cache": False,
    "graph_partition": False,
    "freezing": False,
    "triton.cudagraphs": False,
}
"""Settings under which the code of a graph is generated here, and each kernel is called by it. Random numbers stay
those that the program has without ctrace."""


class FirstCalls(Listener):
    """Passes on the first call of each graph, of this process, one graph at a time."""

    def __init__(self, inner: Listener) -> None:
        self._inner = inner
        self._process = os.getpid()
        self._seen: set[int] = set()
        self._current: tuple[WatchedGraph, int] | None = None

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Pass on the call of a graph that was not called before."""
        me = threading.get_ident()
        # A graph may be left by an exception in the same thread: the next one that enters takes its place.
        if self._current is not None and self._current[1] != me:
            return  # another thread is in a graph, whose kernels are compared
        self._current = None
        # A fork of the program would judge the same graphs again, and nobody reads its answer.
        if os.getpid() != self._process or id(graph) in self._seen:
            return
        self._seen.add(id(graph))
        self._current = graph, me
        # Judging calls operators, which a mode of the program would take for the program's own.
        with modes_off():
            self._inner.entered(graph, args, names)

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """Pass on a kernel of it."""
        if self._current != (graph, threading.get_ident()):
            return
        with modes_off():
            self._inner.called(graph, number, names)
        if number == len(graph.calls) - 1:
            self._current = None


class ProgramComparison(Findings):
    """Compares what a program compiles."""

    def __init__(self, request: AccuracyRequest) -> None:
        super().__init__(request, {})
        self._counting = CountingListener(self._judge, self._stages)
        self._is_compiling = threading.local()

    def answered(self, preloaded: Preloaded) -> Accuracy:
        """Run the program to its end, and say what was wrong in it.

        Raises:
            TargetError: it compiles nothing.
            TaskError: it ends with an exception before it compiles anything.
        """
        capture = self._request.capture
        self._stages.is_active = True
        self._judge.scenario = self._stages.scenario = "program"
        with (
            watch_imports() as when,
            ExitStack() as patches,
            in_program(),
            listening(FirstCalls(self._counting)),
        ):
            # Only once the program imports it: until then, nothing of torch is changed for it.
            when("torch._inductor.compile_fx", partial(self._patch, patches))
            self._program = ending_of(lambda: run_program(capture, preloaded))
        # The process ends without Python's own cleaning up, which would flush what the program printed.
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        name = capture.typed or capture.path or str(capture.module)
        # A program that fails after it compiled something is still compared up to there.
        if not self._graphs:
            if self._program != ENDED_WELL:
                raise TaskError(
                    f"{name} ended before it compiled anything: {self._program}", "first run it in plain Python"
                )
            what = f"{name} compiled nothing with Inductor, so there are no kernels to compare"
            raise TargetError(what, "call what torch.compile returns, or name a model: ctrace accuracy file.py:name")
        if not self._counting.graphs:
            self._not_compared["the program", "no compiled graph was called"] = None
        self._kernels, self._runs = self._counting.kernels, self._counting.graphs
        self._not_compared |= self._counting.failed
        fine = Judgement.FINE
        if self._stages.not_compared:  # what was left out may be wrong
            fine = Judgement.UNDECIDED
        self._verdicts.append(Judgement.WRONG if self._stages.wrong else fine)
        return self._found()

    def _patch(self, patches: ExitStack, module: ModuleType) -> None:
        self._graphs = patches.enter_context(watched())
        self._before = patches.enter_context(before_passes())
        patches.enter_context(patched(module, "compile_fx", self._compiling(module.compile_fx, module)))

    def _compiling(self, original: Callable[..., Any], module: ModuleType) -> Callable[..., Any]:
        inner = module.compile_fx_inner

        def compile_fx(
            model_: Any, example_inputs_: Any, inner_compile: Any = inner, config_patches: Any = None, **others: Any
        ) -> Any:
            import torch

            # Inductor calls itself for subgraphs, and other tools pass an inner compiler or no graph: not Dynamo's.
            is_nested = getattr(self._is_compiling, "is_set", False)
            if is_nested or inner_compile is not inner or not isinstance(model_, torch.fx.GraphModule):
                return original(model_, example_inputs_, inner_compile, config_patches, **others)
            # The user's own settings stay, but for those under which kernels cannot be followed.
            settings = {**(config_patches or {}), **_SETTINGS}

            def compile_it(graph: Any, inputs: Any, more: dict[str, Any]) -> Callable[..., Any]:
                from torch._functorch import config as of_autograd

                # A cached graph would come without the lowering that is watched.
                with self._compiling_here(), of_autograd.patch(enable_autograd_cache=False):
                    found: Callable[..., Any] = original(graph, inputs, inner_compile, {**settings, **more}, **others)
                    return found

            return self._stages.compiled(model_, example_inputs_, compile_it, once=True)

        return compile_fx

    @contextmanager
    def _compiling_here(self) -> Iterator[None]:
        self._is_compiling.is_set = True
        try:
            yield
        finally:
            self._is_compiling.is_set = False


class Digests(Listener):
    """Keeps a checksum of what each kernel wrote."""

    def __init__(self) -> None:
        self.found: list[tuple[str, tuple[int, ...]]] = []

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """Add the checksums of a call."""
        call = graph.calls[number]
        values = [names[each] for each in dict.fromkeys(call.writes.values()) if each in names]
        self.found.append((call.name, tuple(_checksum(each) for each in values)))


def run_to_run(promises: Promises, first: Digests, second: Digests) -> Promises:
    """Compare two equal calls."""
    # In the order of the calls: the first kernel that differs is the cause, and later ones follow it.
    for (name, one), (_, other) in zip(first.found, second.found, strict=False):
        if one != other:
            return replace(promises, run_to_run=False, run_to_run_broken_by=name)
    return replace(promises, run_to_run=len(first.found) == len(second.found))


def row_alone(call: Call) -> Call | None:
    """Return a call with the first row of each tensor that has the size of the batch; None: there is no batch."""
    # The batch is the first dimension of the first input that has one, as in nearly all models.
    rows = [each.shape[0] for each in tensors(call) if each.dim()]
    if not rows or rows[0] < 2:
        return None
    # A tensor of its own, as in a program that calls the model with one row.
    return mapped(call, lambda each: each[:1].clone() if each.dim() and each.shape[0] == rows[0] else each)


def batch_invariant(promises: Promises, whole: CallResults, alone: CallResults, batch: int) -> Promises:
    """Compare the first row of each result with that of a call with this row."""
    import torch
    from torch.utils import _pytree

    # Only results with a row for each row of the input have one to compare.
    pairs = [
        (one[:1], other)
        for one, other in zip(_pytree.tree_leaves(whole.outputs), _pytree.tree_leaves(alone.outputs), strict=False)
        if isinstance(one, torch.Tensor) and one.dim() and one.shape[0] == batch and one[:1].shape == other.shape
    ]
    if not pairs:
        return promises
    return replace(promises, batch_invariant=all(_checksum(one) == _checksum(other) for one, other in pairs))


def _checksum(value: Any) -> int:
    import torch

    if isinstance(value, tuple | list):
        return zlib.crc32(repr(list(map(_checksum, value))).encode())
    if not isinstance(value, torch.Tensor):
        return zlib.crc32(repr(value).encode())
    # The bits: equal numbers may still differ in the sign of zero, which a promise of equal results covers.
    flat = value.detach().cpu().contiguous().reshape(-1)
    if not flat.numel():
        return 0
    return zlib.crc32(flat.view(torch.uint8).numpy().tobytes())


class ErrorPath(Listener):
    """Computes one graph in float64, from its inputs on, beside a compiled call."""

    def __init__(self, graph: WatchedGraph, first: int) -> None:
        self.steps: list[PathStep] = []
        self._graph = graph
        self._first = first
        self._truth: Values = {}
        self._is_done = False

    def entered(self, graph: WatchedGraph, args: list[Any], names: dict[str, Any]) -> None:
        """Take the inputs in float64."""
        if graph is self._graph and not self._is_done:
            placeholders = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
            self._truth = {node: widened(each) for node, each in zip(placeholders, args, strict=False)}

    def called(self, graph: WatchedGraph, number: int, names: dict[str, Any]) -> None:
        """Compare what a kernel stored; random numbers are those that were drawn."""
        if graph is not self._graph or self._is_done:
            return
        call = graph.calls[number]
        worst, at = 0.0, None
        for node, value in stored_nodes(graph, number, names).items():
            try:
                if cannot_repeat(node) is not None:
                    raise NotComputableError(str(node))
                # From the values in float64 so far, so that the errors of earlier kernels are in the distance.
                nodes = needed([node, *writes_until(graph, number, node)], self._truth)
                self._truth.update(computed(graph.module, nodes, self._truth, Float64(), lambda each: each))
            except Exception:  # no float64 of it can be had: later kernels are compared from what was stored
                self._truth[node] = widened(value)
            if not isinstance(value, tuple | list):
                error = distance(value, self._truth[node])
                worst, at = max((worst, at), (error, node), key=lambda each: each[0])
        # The path begins at the culprit; before it, float64 is only carried along.
        if number >= self._first and at is not None and not call.is_view:
            file, line, _ = place_of(at)
            where = None
            if file is not None:
                where = f"{file}:{line}"
            self.steps.append(PathStep(call.name, where, worst if worst <= LARGEST else None))
        self._is_done = number == len(graph.calls) - 1


_SEED = 20
"""Each call starts with the same random numbers, eager and compiled."""
_NO_COMPILER = "InvalidCxxCompiler"
_COPIES = 4
"""The model, its copy for eager, and one in float64, which is twice as large."""


def main(loaded: frozenset[str]) -> None:
    """Carry out the request."""
    preloaded = Preloaded(loaded)
    answer(AccuracyRequest, lambda request: _answered(request, preloaded))


def _answered(request: AccuracyRequest, preloaded: Preloaded) -> Accuracy | Drafts:
    try:
        if request.capture.kind == "program":
            return ProgramComparison(request).answered(preloaded)
        seed()  # models draw their weights as they are made
        comparison = _Comparison(request, load(request.capture, preloaded))
        found = comparison.answered()
        if request.writes_programs:
            return comparison.drafted(found)
        return found
    except Exception as error:
        if _NO_COMPILER in str(error):
            raise TargetError("no C++ compiler works, and kernels run here", "install g++, or set CXX") from error
        raise


class _Comparison(Findings):
    """Compares all scenarios of a model with one compiled model."""

    def __init__(self, request: AccuracyRequest, loaded: Loaded) -> None:
        import torch

        super().__init__(request, settings_of(request.capture.options))
        self._model = loaded.model
        self._scenarios = loaded.scenarios
        self._names = tuple(self._chosen())
        self._set = settings_of_run()
        self._copier = Copier()
        if self._options.train and isinstance(self._model, torch.nn.Module):
            self._model.train()
        backend = self._stages.backend
        self._compiled: Any = torch.compile(
            self._model, dynamic=self._options.dynamic, fullgraph=self._options.fullgraph, backend=backend
        )
        self._steps: SideBySide | None = None
        if request.steps:
            self._steps = SideBySide(self._model, self._compiled, loaded.scenarios["base"], loaded.module)
        self._check_room()

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
            if self._steps is not None:
                self._trained = self._steps.trained(self._request.steps, self._rerun)
                self._runs += self._trained.runs
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

        # Only what was located has a graph and values to write down.
        known = [each for each in found.culprits if each in self._located or each in self._located_stages]
        file, _, line = self._request.site.rpartition(":")
        if self._request.site:
            known = [each for each in known if (each.file or "").endswith(file) and str(each.line) == line]
        versions = str(torch.__version__), platform.python_version()
        if not known:
            return Drafts(found, None, (), "", *versions)
        if known[0] in self._located:
            programs = drafts(*self._located[known[0]], self._set)
        else:
            stage, made = self._located_stages[known[0]]
            if made.no_program:
                return Drafts(found, known[0], (), made.no_program, *versions)
            programs = stage_drafts(stage, made, self._set)
        return Drafts(found, known[0], tuple(programs), "", *versions)

    def _rerun(self, step: int, call: Callable[[], None]) -> bool:
        """Judge the kernels of a training step; return whether one makes the first NaN or infinity."""
        # Its first step runs the kernels of the call before it, which are judged already.
        is_known = step == 1 and bool(self._judge.wrong or self._stages.wrong)
        before, nonfinite = len(self._judge.wrong), self._judge.nonfinite
        self._judge.step = self._stages.step = step
        self._judge.scenario = self._stages.scenario = "base"
        self._stages.is_active = True
        with listening(CountingListener(self._judge, self._stages)):
            call()
        self._stages.is_active = False
        self._judge.step = self._stages.step = None
        if is_known:  # the same kernels as in the single call
            del self._judge.wrong[before:]
        return self._judge.nonfinite is not nonfinite

    def _check_room(self) -> None:
        """Refuse a model that does not fit several times into memory.

        Raises:
            TargetError: it does not.
        """
        import torch

        if not isinstance(self._model, torch.nn.Module):
            return
        if self._steps is None:
            times = _COPIES
        else:
            times = max(_COPIES, copies(self._steps.optimizer))
        state = [*self._model.parameters(), *self._model.buffers()]
        size = sum(each.numel() * each.element_size() for each in state)
        if any(each.is_cuda for each in state):
            free = free_memory()
        else:
            free = memory()
        if times * size > free:
            runs = " with optimizers and gradients" if self._steps is not None else ""
            what = f"the model's {_amount(size)} have to fit {times} times{runs} into {_amount(free)} of free memory"
            raise TargetError(what, "compare a part of it: ctrace accuracy file.py:name, with fewer layers")

    def _compare(self, scenario: str, way: Way) -> None:
        call = way.make()
        self._judge.scenario = scenario
        nonfinite_before = self._judge.nonfinite
        # The first device that is no CPU: inputs of sizes and masks often stay on the CPU.
        self._device = next((each.device.type for each in tensors(call) if each.device.type != "cpu"), self._device)
        began = time.perf_counter()
        eager = self._eager(call, way)
        seconds = time.perf_counter() - began
        # A second call: what eager cannot repeat with one seed says nothing against compiled code.
        again = self._eager(call, way)
        # Eager ran on copies, so this is the state from which every compiled call begins.
        state = self._state()
        before = self._judge.compared, len(self._judge.wrong), len(self._graphs)
        counting = CountingListener(self._judge, self._stages)
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
            # The compiled call has changed buffers, and the verdict compares from where it began.
            self._restore(state)
            self._verdicts.append(self._verdict(eager, compiled, call, way, seconds))
        # One path is enough: those of other scenarios would mostly repeat it.
        if len(self._judge.wrong) > before[1] and not self._path:
            self._restore(state)
            self._follow(self._judge.wrong[before[1]], call, way)
        is_unexplained = self._verdicts[-1] is Judgement.WRONG and len(self._judge.wrong) == before[1]
        # With --train, a wrong result without a wrong kernel or forward graph leaves the backward.
        if is_unexplained and self._options.train and not any(each.scenario == scenario for each in self._stages.wrong):
            self._restore(state)
            self._judge_backward(scenario, call, way)
        if self._request.promises and way.kind is ScenarioKind.BASE:
            self._try_promises(call, way, state)
        if not has_nonfinite([*_floats(compiled)]):
            self._judge.nonfinite = nonfinite_before  # those of this scenario do not last, as the infinities of a mask

    def _eager(self, call: Call, way: Way, arithmetic: WatchedArithmetic | None = None) -> CallResults:
        import torch

        # On a copy: eager must not change the model that compiled code is called with.
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
            try:
                return EagerRun(self._eager(call, way, arithmetic), None, Traces(), seconds)
            except Exception as error:  # float64 does not suit the model
                raise EagerError from error

        if not disagreeing(eager, compiled):
            return Judgement.FINE
        # Only for a result that differs: this call costs as much as eager.
        self._eager(call, way, watched_)
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
                # Only what has changed: each write raises the version that autograd looks at.
                if not torch.equal(tensor, value):
                    tensor.copy_(value)

    def _follow(self, first: StoredBuffer, call: Call, way: Way) -> None:
        path = ErrorPath(first.graph, first.number)
        self._call_compiled(call, way, CountingListener(path))
        self._path = tuple(path.steps)

    def _judge_backward(self, scenario: str, call: Call, way: Way) -> None:
        judge = BackwardJudge()
        self._stages.backwards = judge
        try:
            self._call_compiled(call, way, CountingListener(judge))
        finally:
            self._stages.backwards = None
        self._wrong_backwards += judge.wrong(self._before, scenario)
        self._not_compared |= judge.not_compared

    def _try_promises(self, call: Call, way: Way, state: list[tuple[Any, Any]]) -> None:
        first, second = Digests(), Digests()
        results = None
        for digests in (first, second):
            self._restore(state)
            results = self._call_compiled(call, way, CountingListener(digests))
        self._promises = run_to_run(self._promises, first, second)
        alone = row_alone(call)
        if alone is None or results is None:
            return
        self._restore(state)
        try:
            # It compiles again for the other size, as it would for a program that calls it so.
            of_row = self._call_compiled(alone, way, Listener())
        except Exception as error:
            self._untried["a row alone", kind_and_message(error).splitlines()[0][:200]] = None
            return
        batch = next(each.shape[0] for each in tensors(call) if each.dim())
        self._promises = batch_invariant(self._promises, results, of_row, batch)


def _amount(size: int) -> str:
    if size >= 1e8:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.1f} MB"


def settings_of(options: Options) -> dict[str, Any]:
    """Return Inductor's settings of a mode, without CUDA graphs.

    Raises:
        TargetError: there are no kernels with this backend, or no such mode.
    """
    if not is_inductor(options.backend):
        raise TargetError(f"--backend {options.backend}: there are no kernels to compare", "leave it out")
    check_mode(options.mode)
    return {**settings_of_mode(options.mode), "triton.cudagraphs": False}


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _floats(results: CallResults) -> Iterator[Any]:
    from torch.utils import _pytree

    yield from _pytree.tree_leaves((results.outputs, results.gradients))
