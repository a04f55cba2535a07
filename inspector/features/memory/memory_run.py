"""Start the child process that follows the memory of a model or a program."""

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError, TargetError
from ctrace.inspector.facts.memory_facts import (
    AliveMemory,
    FitDocument,
    FoundMemory,
    MemoryOption,
    MemoryPeak,
    ProductWork,
    with_measured,
)
from ctrace.inspector.features.doors import require
from ctrace.inspector.features.memory.memory_request import MemoryRequest, RunMemory, with_eager
from ctrace.inspector.findings.kernels.built_view import most_operations
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.options import check_options
from ctrace.inspector.runs.saving import Adds
from ctrace.inspector.runs.target import ProgramTarget, Resolved, resolve
from ctrace.inspector.runs.tasks import TaskError, run_task
from ctrace.inspector.runs.virtual_world import rank_environment

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session

_MODULE = "ctrace.inspector.features.memory.child.door"
_EAGER = {"TORCH_COMPILE_DISABLE": "1"}
"""Makes `torch.compile` return what it is given (2.11 to 2.13, _dynamo/config.py, `disable`)."""


def memory_of(
    target: str,
    options: Options,
    *,
    timeout: float | None,
    observe: Callable[[], None],
    output: int | IO[bytes] | None,
    calls: int = 0,
    tries_options: bool = False,
    budget: float = 60.0,
    args: Sequence[str] = (),
    say: Callable[[str], None] = lambda _text: None,
) -> FoundMemory:
    """Follow the memory of one step of a model, or of a program.

    Raises:
        TargetError: the target does not exist, or an option does not fit.
        TaskError: the model fails, in eager or compiled.
        SetupError: there is no supported torch, or the system cannot start a process.
    """
    found = resolve(target, args, has_inputs=bool(options.inputs))
    if isinstance(found, ProgramTarget):
        # Any other option says how to call a model, which nobody calls here.
        if options != _of_program(options) or calls or tries_options:
            what = f"{target} is a program: it makes its own inputs and calls torch.compile itself"
            todo = "use only --build, --world and --timeout with it, or name a model: file.py:name"
            raise TargetError(what, todo)
        if options.build and options.world is not None:
            what = "--build and --world exclude each other for a program: a rank without the others runs no collective"
            raise TargetError(what, f"drop --build: ctrace memory {target} --world {options.world}")
        check_options(found, options)
        return _program_memory(found, options, timeout=timeout, observe=observe, output=output, say=say)
    check_options(found, options)
    path = None
    if found.path is not None:
        path = str(found.path)
    capture = CaptureRequest("model", path, found.module, found.name, (), options, log="")
    say("following tensors")
    request = MemoryRequest(capture, calls, tries_options, budget)
    return run_task(
        _MODULE,
        request,
        FoundMemory,
        timeout=timeout,
        observe=observe,
        output=output,
        environment=_rank_variables(options),
    )


def _of_program(options: Options) -> Options:
    """Return the options that a program takes: it makes its own inputs, and compiles by itself."""
    return Options(
        build=options.build, world=options.world, mesh=options.mesh, rank=options.rank, assume=options.assume
    )


def _rank_variables(options: Options) -> dict[str, str]:
    """Return the variables that torchrun gives to the rank that the options name; empty: they name no world."""
    if options.world is None:
        return {}
    return rank_environment(options.rank or 0, options.world, os.environ)


def _program_memory(
    found: ProgramTarget,
    options: Options,
    *,
    timeout: float | None,
    observe: Callable[[], None],
    output: int | IO[bytes] | None,
    say: Callable[[str], None] = lambda _text: None,
) -> FoundMemory:
    """Run a program compiled and then in eager, and follow the memory of both."""
    path = None
    if found.path is not None:
        path = str(found.path)
    capture = CaptureRequest("program", path, found.module, None, found.args, options, log="", typed=found.typed)

    def run(request: MemoryRequest, stdout: int | IO[bytes] | None, environment: Mapping[str, str]) -> RunMemory:
        return run_task(
            _MODULE,
            request,
            RunMemory,
            timeout=timeout,
            observe=observe,
            output=stdout,
            environment={**_rank_variables(options), **environment},
            # A program may ask its user.
            child=ChildProcess(has_terminal=True),
        )

    # First, since it says which functions are compiled: eager is followed in the same ones.
    compiled = run(MemoryRequest(capture), output, {})
    say("running the program in eager")
    # Its output is that of the first run again.
    eager = run(MemoryRequest(capture, is_eager=True, entered=compiled.entered), subprocess.DEVNULL, _EAGER)
    found_memory = replace(with_eager(compiled, eager), program=compiled.found.program)
    if options.build:
        say("measuring both peaks")
        request = MemoryRequest(capture, measures=compiled.found.device)
        try:
            compiled_bytes, eager_bytes = (
                run(request, subprocess.DEVNULL, each).found.peak.bytes for each in ({}, _EAGER)
            )
            found_memory = with_measured(found_memory, compiled_bytes, eager_bytes)
        except TaskError as error:
            why = f"{error.what}: the peaks are computed"
            found_memory = replace(found_memory, problems=(*found_memory.problems, why))
    idle = next((each for each in compiled.found.alive if each.kind == "saved"), None)
    # Tensors are saved in vain only if no backward ran in the whole program.
    if compiled.backwards or idle is None:
        return found_memory
    say("running the program under torch.no_grad()")
    try:
        peak = run(MemoryRequest(capture, without_gradients=True), subprocess.DEVNULL, {}).found.peak
    except TaskError as error:  # the program asks for a gradient in another way
        return replace(found_memory, options=(_without_gradients(idle, None, error.what),))
    return replace(found_memory, options=(_without_gradients(idle, peak.bytes),))


def _without_gradients(idle: AliveMemory, peak: int | None, why_not: str = "") -> MemoryOption:
    """Return the advice for a program that saves tensors, and takes no backward."""
    return MemoryOption(
        name="no_grad",
        text="run under torch.no_grad() what saves for a backward that never runs",
        file=idle.file,
        line=idle.line,
        peak_bytes=peak,
        extra_flops=0.0,
        tried=True,
        measured=False,
        statement="with torch.no_grad():",
        computed_bytes=peak,
        why_not=why_not,
    )


_FIT = re.compile(r"batch|\d+\.\d+")


def fit_of(
    target: str,
    options: Options,
    what: str,
    gpu: TargetGpu | None,
    *,
    timeout: float | None,
    observe: Callable[[], None],
    output: int | IO[bytes] | None,
) -> FitDocument:
    """Find the largest size of an input that fits into a GPU's memory, or this machine's.

    The model is called without weights: a size that does not fit takes no memory here.

    Raises:
        TargetError: the target is not a model, or an option does not fit.
        TaskError: the model fails.
        SetupError: there is no supported torch, or the system cannot start a process.
    """
    if _FIT.fullmatch(what) is None:
        raise TargetError(f"--fit {what}: not known", "write batch, or an input and a dimension of it, such as 0.1")
    require("fake", "--fit")
    if options.world is not None:
        raise TargetError(
            "--fit and --world exclude each other: the search runs without weights, and a collective reads its input",
            f"search on one process, or follow one size: ctrace memory {target} --world {options.world}",
        )
    found = resolve(target, (), has_inputs=bool(options.inputs))
    if isinstance(found, ProgramTarget):
        raise TargetError(
            f"--fit changes the inputs of a model, and {target} is a program, which makes its own",
            f'name the model in it and an input: ctrace memory {target}:NAME --input "float32[8,128]" --fit {what}',
        )
    options = replace(options, fake=True, gpu=None)
    check_options(found, options)
    path = None
    if found.path is not None:
        path = str(found.path)
    capture = CaptureRequest("model", path, found.module, found.name, (), options, log="")
    limit, name = (None, "") if gpu is None else (gpu.memory, gpu.name)
    request = MemoryRequest(capture, fit=what, limit=limit, limited_by=name)
    answer = run_task(_MODULE, request, FitDocument, timeout=timeout, observe=observe, output=output)
    return replace(answer, least_seconds=None if gpu is None else _least_seconds(answer.work, gpu))


def _least_seconds(work: tuple[ProductWork, ...], gpu: TargetGpu) -> float | None:
    """Return the lower bound on the time of some operations; None: there are none, or a rate is not known."""
    rates = [_rate(gpu, each.dtype) for each in work]
    # A bound that leaves out some work would be too low to mean anything.
    if not work or None in rates:
        return None
    return sum(each.flops / rate for each, rate in zip(work, rates, strict=True) if rate)


def _rate(gpu: TargetGpu, dtype: str) -> float | None:
    is_tf32 = dtype == "tf32"
    return most_operations(gpu, ("float32" if is_tf32 else dtype,), products=True, tf32=is_tf32)


def with_memory(
    resolved: Resolved,
    options: Options,
    *,
    timeout: float | None,
    observe: Callable[[], None],
    measures: bool = False,
    tries_options: bool = False,
    follows_programs: bool = False,
) -> "Callable[[Session, Adds], Session]":
    """Return a function that follows the memory of a step after a run, and adds it to the log and the session.

    Args:
        observe: called again and again; raises if nobody waits for the result any longer.
        measures: whether to build the kernels and measure both peaks.
        tries_options: whether to try what may lower the peak.
        follows_programs: whether to run a program again, compiled and in eager; otherwise only models are followed.
    """
    devnull = subprocess.DEVNULL

    def follow() -> FoundMemory:
        if isinstance(resolved, ProgramTarget):
            asked = replace(_of_program(options), build=measures)
            return _program_memory(resolved, asked, timeout=timeout, observe=observe, output=devnull)
        path = None
        if resolved.path is not None:
            path = str(resolved.path)
        # Calls that ctrace makes up would be part of the peak.
        asked = replace(options, provoke=False, trace_only=False, build=measures)
        capture = CaptureRequest("model", path, resolved.module, resolved.name, (), asked, log="")
        request = MemoryRequest(capture, tries_options=tries_options)
        variables = _rank_variables(options)
        return run_task(
            _MODULE, request, FoundMemory, timeout=timeout, observe=observe, output=devnull, environment=variables
        )

    def then(session: "Session", add: Adds) -> "Session":
        if session.failure is not None or (isinstance(resolved, ProgramTarget) and not follows_programs):
            return session
        try:
            found = follow()
        except CtraceError as error:
            nothing = MemoryPeak(0, measured=False, part="", at="")
            found = FoundMemory(nothing, None, why_not=error.what)
        add(found)
        return replace(session, memory=found)

    return then
