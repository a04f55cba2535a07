"""Install all hooks of a capture."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from os import getpid
from pathlib import Path
from types import ModuleType

from ctrace.inspector.capture.core.child_doors import child_door, has_child_door
from ctrace.inspector.capture.core.counters import cache_counters, counters
from ctrace.inspector.capture.core.environment import environment
from ctrace.inspector.capture.core.files_read import files_read
from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.imports import watch_imports
from ctrace.inspector.capture.core.listings import listings
from ctrace.inspector.capture.core.record_caches import cache_records, no_caches, own_autotuning_cache, own_triton_cache
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.structured import structured
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.capture.dynamo.backend_of_graph import graphs, unrolled
from ctrace.inspector.capture.dynamo.collector import collector
from ctrace.inspector.capture.dynamo.frames import bytecode, frames
from ctrace.inspector.capture.dynamo.guard_stacks import GuardStacks
from ctrace.inspector.capture.dynamo.op_counts import OpCounter
from ctrace.inspector.capture.dynamo.record_guards import guards
from ctrace.inspector.capture.dynamo.record_recompiles import recompiles
from ctrace.inspector.capture.dynamo.record_shapes import shapes
from ctrace.inspector.capture.inductor.emit import emitting
from ctrace.inspector.capture.inductor.record_attention import attention
from ctrace.inspector.capture.inductor.record_fusion import fusion
from ctrace.inspector.capture.inductor.record_passes import passes, replaced_nodes
from ctrace.inspector.capture.isolation.allocator_statistics import program_statistics
from ctrace.inspector.capture.isolation.random_states import seeded
from ctrace.inspector.capture.kernels.record_autotuning import autotuning
from ctrace.inspector.capture.kernels.record_built_kernels import built_kernels
from ctrace.inspector.capture.kernels.record_cuda_graphs import cuda_graphs
from ctrace.inspector.capture.kernels.record_kernels import kernels
from ctrace.inspector.capture.kernels.record_user_kernels import userkernels
from ctrace.inspector.facts.run_events import Ended, ModeChosen
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu
from ctrace.inspector.runs.capture_request import Options


@contextmanager
def capturing(
    log: Path | None,
    *,
    spare: int | None = None,
    build: bool,
    time_kernels: bool = True,
    fast: bool = False,
    cost: bool = False,
    parts: bool = True,
    ops: OpCounter | None = None,
    owned: Iterable[str] = (),
    gpu: TargetGpu | None = None,
    cores: int | None = None,
    files: bool = False,
    caches: str | None = None,
    seed: int | None = None,
    is_whole: bool = False,
    virtual: Options | None = None,
) -> Iterator[Recorder]:
    """Record everything that torch.compile does in this block into `log`.

    Args:
        log: the file, or None to write everything to `spare`.
        spare: pipe for the records that the disk does not accept.
        build: compile and run kernels as usual; else only emit their code and run graphs eagerly.
        time_kernels: time each kernel that is built.
        fast: record that the caller does not lower graphs.
        cost: measure the time that guards take.
        parts: measure it for each part of a guard tree, too, which adds some seconds to each compilation.
        ops: excludes the graphs' ops from its count, for a caller that calls the model.
        owned: paths of code that counts as the user's.
        gpu: emit code for this GPU, which need not exist, instead of for the program's device.
        cores: the maximum number of cores that forks may use to emit code.
        files: record which files the program depends on.
        caches: keep these caches on, `private` or `user`; record only compile times and what the caches return.
        seed: what the generators of random numbers start with; None: what Python and torch choose.
        is_whole: the process runs nothing after this block.
        virtual: the options that make the process one rank of a job; None: it is no such rank.
    """
    recorder = Recorder(TraceLog(log, spare))
    process = getpid()
    try:
        with ExitStack() as active:
            # First, since every hook waits for imports with it.
            when = _guarded(active.enter_context(watch_imports()), recorder)
            recorder.add(ModeChosen(build, fast))
            hooks = _hooks(
                build=build,
                time_kernels=time_kernels,
                cost=cost,
                parts=parts,
                ops=ops,
                gpu=gpu,
                cores=cores,
                world=None if virtual is None else virtual.world,
            )
            # The environment is the head of a log: how to read all that follows. The seed is set before anything can
            # draw.
            started = [environment(owned, seed), seeded(seed)]
            if virtual is not None:
                started += child_door("cluster").hooks(virtual)
            for hook in (*started, *(hooks if caches is None else _few_hooks(caches))):
                active.enter_context(hook(recorder, when))
            if files:
                active.enter_context(files_read(owned)(recorder, when))
            if build and is_whole:  # else the program reads a peak after the block, which only a correction can give
                active.enter_context(program_statistics(recorder, when))
            yield recorder
            # What could be measured has been by now (`child_main.py:_measure_postponed`); the rest needs a program that
            # is over.
            recorder.postponed.refuse("the capture ended before the program did")
            if getpid() != process:
                recorder.log.close()  # this is a fork that reached the end of the block; its parent still writes
        # After the hooks are gone, so that a log with this record is complete, forks included.
        recorder.add(Ended())
    finally:
        recorder.log.close()


def _guarded(when: When, recorder: Recorder) -> When:
    """Keep a hook from breaking the import that it waits for, if the hook fails on a changed torch."""

    def guarded(name: str, action: Callable[[ModuleType], None]) -> None:
        def act(module: ModuleType) -> None:
            with recorder.watching(f"what happens in {name}"):
                action(module)

        when(name, act)

    return guarded


def _few_hooks(caches: str) -> Iterator[Hook]:
    """Return the hooks that do not slow down compiling: what torch itself logs and counts."""
    yield from (structured, listings, cache_records(caches), cache_counters)


def _hooks(
    *,
    build: bool,
    time_kernels: bool,
    cost: bool,
    parts: bool,
    ops: OpCounter | None,
    gpu: TargetGpu | None,
    cores: int | None,
    world: int | None,
) -> Iterator[Hook]:
    # One for both: `guards` keeps the stacks that `recompiles` looks up when a guard fails.
    stacks = GuardStacks()
    yield from (structured, listings, no_caches, counters, collector, frames, bytecode)
    yield from (
        guards(stacks, cost=cost, parts=parts),
        recompiles(stacks),
        graphs(ops),
        shapes,
        unrolled,
        passes,
        replaced_nodes,
        attention,
        fusion,
        kernels,
    )
    yield from (userkernels, cuda_graphs, autotuning)
    if has_child_door("fake"):
        yield from child_door("fake").HOOKS
    if gpu is not None or (world is not None and has_child_door("gpus")):
        yield from child_door("gpus").hooks(gpu, world, is_program=ops is None)
    if build:
        yield from (own_triton_cache, own_autotuning_cache, built_kernels(timing=time_kernels))
    else:
        device = None
        if gpu is not None:
            device = partial(child_door("gpus").VirtualDevice, gpu)
        yield emitting(device, cores)
