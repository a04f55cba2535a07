"""Compile every Triton kernel that was emitted for a GPU, on all free cores.

A cache keyed by source and target provides the kernels that an earlier run compiled (`cache.py`).
"""

import ast
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.capture.core.cores import Cores
from ctrace.inspector.capture.core.part import Part
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.built import Built, KernelRefusal
from ctrace.inspector.facts.target import Candidate, Undecided
from ctrace.inspector.features.gpus.child.compiling.cache import CompileCache, Outcome
from ctrace.inspector.features.gpus.child.compiling.triton import TritonCompiler
from ctrace.inspector.features.gpus.child.compiling.workers import work_off
from ctrace.inspector.features.gpus.child.virtual_gpu import VirtualGpu


def sources_of(wrapper: str) -> Iterator[tuple[str, str, str]]:
    """Return each kernel's name in the wrapper, its name in its source, and the source.

    A wrapper defines a kernel as `name = async_compile.triton('name', '''...''')` (2.11 to 2.13,
    _inductor/codegen/triton.py: `define_kernel`, codegen/wrapper.py: `define_user_defined_triton_kernel`).

    Raises:
        SyntaxError: the wrapper is not Python.
    """
    for statement in ast.parse(wrapper).body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=variable)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="async_compile"), attr="triton"),
                    args=[ast.Constant(value=str(name)), ast.Constant(value=str(source)), *_],
                ),
            ):
                yield variable, name, source


_SECONDS = 120
"""Time limit for one kernel with all its configurations."""


class Job(Struct, frozen=True):
    """A kernel to compile, and the graph parts that call it, each with the name under which it calls the kernel."""

    key: str
    name: str
    """The kernel's name in its source."""
    source: str
    users: list[tuple[Part, str]] = field(default_factory=list)


class Metal:
    """Compiles kernels, or takes them from the cache, and records the outcomes."""

    def __init__(self, recorder: Recorder, gpu: VirtualGpu, cores: Cores) -> None:
        self._recorder = recorder
        self._gpu = gpu
        self._cores = cores
        self._cache = CompileCache(gpu.facts)
        self._folder = self._scratch()

    def jobs(self, wrapper: str, part: Part) -> list[Job]:
        """Record the cached kernels of a graph part, and return jobs for the others."""
        found: dict[str, Job] = {}
        with self._recorder.watching("the kernels of a graph, compiled"):
            for variable, name, source in sources_of(wrapper) if self._can_compile else ():
                key = self._cache.key(name, source)
                outcome = self._cache.get(key) if key not in found else None
                if outcome is None:
                    found.setdefault(key, Job(key, name, source)).users.append((part, variable))
                else:
                    self._record(outcome, [(part, variable)], cached=True)
        return list(found.values())

    def _scratch(self) -> Path | None:
        """Create a folder for the compilers' temporary files; if that fails, return None, and no kernel is compiled."""
        try:
            return Path(tempfile.mkdtemp(prefix="ctrace-metal-"))
        except OSError as error:
            name = self._gpu.facts.name
            why = f"no temporary folder can be created ({error.strerror or error}); set TMPDIR to a writable folder"
            self._recorder.problem(f"kernels were emitted for {name} but not compiled: {why}")
            return None

    def compile(self, jobs: Iterable[Job]) -> None:
        """Compile kernels, record and cache the outcomes, and wait until all are done."""
        todo = _merged(jobs)

        def work(number: int) -> None:
            with self._recorder.watching(f"kernel {todo[number].name}, compiled"), self._gpu.present():
                self._compile(todo[number])

        def failed(number: int, why: str) -> None:
            self._fail(todo[number].users, f"compiling it {why}")

        with self._recorder.watching("the kernels of a graph, compiled"):
            work_off(len(todo), work, failed, self._cores, _SECONDS)

    def end(self) -> None:
        """Trim the cache, and delete the temporary folder."""
        self.discard()
        with self._recorder.watching("the size of the cache of compiled kernels"):
            self._cache.trim()

    def discard(self) -> None:
        """Delete the temporary folder: nothing will be compiled any more."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _compile(self, job: Job) -> None:
        outcome = self._compiler.compile(job.name, job.source)
        self._record(outcome, job.users, cached=False)
        if outcome.problems:  # not cached: it may succeed next time
            return
        try:
            self._cache.put(job.key, outcome)
        except OSError as error:
            self._recorder.problem(f"compiled kernels were not cached for the next run: {error}")

    @cached_property
    def _compiler(self) -> TritonCompiler:
        """Create the worker's compiler on first use, because it patches torch and Triton in this process."""
        assert self._folder is not None  # without a folder there are no jobs
        return TritonCompiler(self._gpu.facts, self._folder)

    @cached_property
    def _can_compile(self) -> bool:
        if self._folder is None:
            return False
        try:
            from triton import knobs

            found = Path(knobs.nvidia.ptxas.path).exists()
            why = "this Triton has no ptxas"
        except (ImportError, RuntimeError, AttributeError) as error:  # Triton raises RuntimeError for a missing tool
            found, why = False, f"{error}"
        if not found:
            name = self._gpu.facts.name
            self._recorder.problem(f"kernels were emitted for {name} but not compiled: {why} (pip install triton)")
        return found

    def _record(self, outcome: Outcome, users: list[tuple[Part, str]], *, cached: bool) -> None:
        several = len(outcome.built) > 1
        for what in outcome.problems:
            self._recorder.problem(what)
        for code in outcome.codes:
            self._recorder.add(code)
        for part, kernel in users:
            for built in outcome.built:
                part.add(self._recorder, replace(built, stage=part.stage, kernel=kernel, cached=cached, open=several))
            for configuration, reason in outcome.refused.items():
                part.add(self._recorder, KernelRefusal(part.stage, kernel, configuration, reason))
            if several:
                _leave_open(self._recorder, outcome.built, part, kernel)
        if outcome.error:
            self._fail(users, f"it does not compile: {outcome.error}")

    def _fail(self, users: list[tuple[Part, str]], why: str) -> None:
        for _, kernel in users:
            self._recorder.problem(f"{kernel} for {self._gpu.facts.name}: {why}")


def _merged(jobs: Iterable[Job]) -> list[Job]:
    merged: dict[str, Job] = {}
    for job in jobs:
        merged.setdefault(job.key, Job(job.key, job.name, job.source)).users.extend(job.users)
    return list(merged.values())


def _leave_open(recorder: Recorder, built: Sequence[Built], part: Part, kernel: str) -> None:
    """Record that torch would time the configurations of a kernel to choose one."""
    candidates = tuple(Candidate(kernel, "triton", _configuration(each)) for each in built)
    part.add(recorder, Undecided(part.stage, "configuration", kernel, "", candidates))


def _configuration(built: Built) -> str:
    values = {**built.blocks, "num_warps": built.warps, "num_stages": built.stages}
    return ", ".join(f"{name}={value}" for name, value in values.items())
