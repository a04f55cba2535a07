"""Compile every Triton kernel that was emitted for a GPU, on all free cores, in every configuration that torch would.

Jobs run in forked workers, so that a crash or a hang costs only one job. A cache keyed by source and target provides
the kernels that an earlier run compiled (`compile_kernels.py`).

`CachingAutotuner.precompile` runs completely (2.11 to 2.13, _inductor/runtime/triton_heuristics.py): it sets options
and signature, drops configurations that do not fit, and adds configurations that it derives from the register counts of
others. Only loading is skipped: register counts come from the binary, and limits from the target's facts. It is called
in a fork, because its patches are not undone.

Cache compiled kernels across runs, keyed by everything that they depend on; evict the least recently used.
"""

import ast
import hashlib
import os
import select
import shutil
import signal
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.json import decode, encode
from msgspec.structs import asdict, replace

from ctrace.inspector.capture.core.forks import Cores, end, exit_status, fork
from ctrace.inspector.capture.core.part import PartIdentity
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.kernels.triton_builds import TritonBuilds, resources
from ctrace.inspector.facts.built import Built, KernelCode, KernelRefusal
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.run_events import ProblemMet
from ctrace.inspector.facts.target_gpu import TimedCandidate, Undecided
from ctrace.inspector.facts.wire import Record
from ctrace.inspector.features.gpus.child.virtual_gpu import VirtualGpu
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu
from ctrace.inspector.knowledge.torch_names import LIBDEVICE_PATH

_FORMAT = 3
"""Version of the cached data; increase it when the format changes."""
_MOST = 1 << 30
"""Maximum size of the cache in bytes."""
_ENOUGH = 3 * _MOST // 4
"""Size in bytes that trimming reduces the cache to."""

_UNFINISHED = ".unfinished-"
# Longer than a compile takes: another process may still write a younger file.
_ABANDONED_SECONDS = 3600
_LARGEST = 1 << 28
"""Maximum bytes of one unpacked outcome."""


class CompiledKernel(Struct, frozen=True):
    """What compiling a kernel gave, for each graph part that calls it."""

    built: tuple[Built, ...]
    """One for each configuration; its stage and the kernel's name are those of no part."""
    codes: tuple[KernelCode, ...]
    refused: dict[str, str]
    """Why a configuration is left out, keyed by its description."""
    problems: tuple[str, ...]
    error: str
    """Why the kernel does not compile."""


def _unpacked(data: bytes) -> bytes:
    """Unpack at most `_LARGEST` bytes: a few KiB that `put` did not write may unpack to gigabytes."""
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(data, _LARGEST)
    if not unpacking.eof:
        raise ValueError("cut short, or too long")
    return unpacked


class CompileCache:
    """Caches the outcomes of compilations for one GPU, one file per kernel."""

    def __init__(self, gpu: TargetGpu) -> None:
        self._gpu = gpu
        self._folder = cache_dir() / "triton"

    def key(self, name: str, source: str) -> str:
        """Return the cache key: a hash of the kernel's source, the GPU, the compilers and their settings."""
        return hashlib.sha256(f"{self._surroundings}\n{name}\n{source}".encode("utf-8", "surrogatepass")).hexdigest()

    def get(self, key: str) -> CompiledKernel | None:
        """Return a kernel's cached outcome and mark it as used; return None if it is missing or damaged."""
        file = self._file(key)
        try:
            outcome = decode(_unpacked(file.read_bytes()), type=CompiledKernel)
            os.utime(file)
        except (OSError, ValueError, RecursionError, zlib.error):
            return None
        return outcome

    def put(self, key: str, outcome: CompiledKernel) -> None:
        """Store an outcome.

        Raises:
            OSError: the folder is not writable.
        """
        file = self._file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=_UNFINISHED)
        try:
            with os.fdopen(handle, "wb") as made:
                made.write(zlib.compress(encode(outcome), 1))
            # Renamed, so that another process reads either nothing or all of it.
            Path(name).replace(file)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise

    def trim(self) -> None:
        """Delete abandoned files; if the cache is too large, also delete the least recently used outcomes."""
        files = [entry for folder in _entries(self._folder) for entry in _entries(Path(folder.path))]
        _drop_unfinished(files)
        known = sorted((stat.st_mtime, stat.st_size, file.path) for file in files if (stat := _stat(file)))
        size = sum(each[1] for each in known)
        if size <= _MOST:
            return
        for _, freed, path in known:
            if size <= _ENOUGH:
                break
            with suppress(OSError):  # another process deleted it first, or another user owns it
                Path(path).unlink()
                size -= freed

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]

    @cached_property
    def _surroundings(self) -> str:
        """Return everything that a compilation depends on except the kernel's source."""
        import torch
        import triton
        from torch._inductor import config
        from triton._C.libtriton import get_cache_invalidating_env_vars

        facts = {name: value for name, value in asdict(self._gpu).items() if name not in ("rates", "sources")}
        # The user may replace these compilers, and the environment has only their paths.
        tools = [_identity(os.environ.get(name)) for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")]
        versions = (torch.__version__, torch.version.git_version, triton.__version__, _identity(triton.__file__))
        # The default of this setting for Intel GPUs depends on the working directory, so leave it out of the key.
        with config.patch({name: "" for name in ("xpu.cutlass_dir",) if hasattr(config, name)}):
            settings = config.get_hash().hex()
        switches = (settings, sorted(get_cache_invalidating_env_vars().items()))
        return repr((_FORMAT, facts, versions, tools, switches))


def _drop_unfinished(files: list["os.DirEntry[str]"]) -> None:
    """Delete files of processes that were killed while writing."""
    for file in files:
        stat = None
        if file.name.startswith(_UNFINISHED):
            stat = _stat(file)
        if stat is not None and time.time() - stat.st_mtime > _ABANDONED_SECONDS:
            with suppress(OSError):
                Path(file.path).unlink()


def _identity(path: str | None) -> tuple[str, float, int] | None:
    if not path:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return str(path), found.st_mtime, found.st_size


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []


def _stat(file: "os.DirEntry[str]") -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:
        return None


def cache_dir() -> Path:
    """Return the cache folder (it may not exist): `$CTRACE_CACHE_DIR`, else `ctrace` in the user's cache folder."""
    own = os.environ.get("CTRACE_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else _home() / ".cache") / "ctrace"


def _home() -> Path:
    """Return the user's home folder; without one, return a path below which no folder, and so no cache, can exist."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)


_R = TypeVar("_R", bound=Record)
_TENSOR_MEMORY = 512
"""Columns of tensor memory, if any (triton/compiler/compiler.py, 3.6, 3.7: `CompiledKernel._init_handles`)."""


class TritonCompiler:
    """Compiles kernels in this process; its patches leave the process unusable for anything else."""

    def __init__(self, gpu: TargetGpu, folder: Path) -> None:
        from torch._inductor.runtime import compile_tasks

        self._gpu = gpu
        # Do not touch the user's caches.
        os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
        # It would interpret kernels, and compile none.
        os.environ.pop("TRITON_INTERPRET", None)
        for name in ("_set_triton_ptxas_path", LIBDEVICE_PATH.of(compile_tasks)):
            if name is not None:
                getattr(compile_tasks, name, _nothing)()
        self._replace()

    def compile(self, name: str, source: str) -> CompiledKernel:
        """Compile a kernel, and return what it gave."""
        gathered = _Gathered()
        self._builds = TritonBuilds(Recorder(gathered), on_device=False)  # type: ignore[arg-type]
        self._loaded: list[Any] = []
        self._refused: dict[str, str] = {}
        error = ""
        try:
            kernel = _kernel(name, source)
            kernel.precompile()
            for result in self._loaded:
                self._builds.compiled(kernel, result)
            self._builds.belongs(kernel, PartIdentity({}, Stage.FORWARD))
        except Exception as raised:  # Triton and torch's heuristics may raise anything
            error = _reason(raised)
        problems = tuple(each.what for each in gathered.of(ProblemMet))
        return CompiledKernel(gathered.of(Built), gathered.of(KernelCode), self._refused, problems, error)

    def _replace(self) -> None:
        from torch._dynamo import device_interface
        from torch._inductor.runtime import triton_heuristics
        from triton import knobs

        devices: Any = device_interface
        heuristics: Any = triton_heuristics
        # Compiling enters the device of the kernel, which is not there.
        devices.DeviceGuard = _no_guard
        # A launcher in C++ would load the kernel onto a GPU; Triton's is replaced below.
        heuristics.StaticTritonCompileResult.can_statically_launch = staticmethod(lambda *_args: None)
        heuristics.TritonCompileResult.make_launcher = lambda result: self._launcher_of(result)
        heuristics.CachingAutotuner._precompile_config = self._precompiling(heuristics)
        # The autotune cache stores the best configuration of an earlier run on a GPU; opening it takes a second.
        heuristics.AutotuneCache.create = staticmethod(_nothing)
        heuristics.log.disabled = True  # it prints what ctrace records
        knobs.compilation.listener = lambda **facts: self._builds.listen(
            **{key: facts[key] for key in ("metadata", "metadata_group", "times", "cache_hit")}
        )

    def _precompiling(self, heuristics: Any) -> Any:
        original = heuristics.CachingAutotuner._precompile_config

        def precompile_config(kernel: Any, config: Any) -> Any:
            try:
                return original(kernel, config)
            except Exception as raised:
                self._refused[configuration_of(config)] = _reason(raised)
                raise

        return precompile_config

    def _launcher_of(self, result: Any) -> Any:
        """Check that a compiled configuration could be loaded, and return a launcher that only names it.

        Torch makes all launchers again after it adds a configuration, so check each result only once.
        """
        if result not in self._loaded:
            try:
                self._load(result.kernel)
            except Exception as raised:
                self._refused[configuration_of(result.config)] = _reason(raised)
                raise
            self._loaded.append(result)
        return SimpleNamespace(config=result.config)

    def _load(self, binary: Any) -> None:
        """Check a binary as loading would, and set the attributes that loading sets.

        Raises:
            OutOfResources: the binary exceeds a limit of the GPU; the caller drops its configuration.
        """
        limits = {
            "shared memory": (binary.metadata.shared, self._gpu.shared_per_block_optin),
            "tensor memory": (getattr(binary.metadata, "tmem_size", None) or 0, _TENSOR_MEMORY),
            "threads": (binary.metadata.num_warps * self._gpu.warp, self._gpu.threads_per_block),
        }
        from triton.runtime.errors import OutOfResources

        for name, (required, limit) in limits.items():
            if required > limit:
                raise OutOfResources(required, limit, name)
        found = resources(binary.kernel)
        binary.n_regs, binary.n_spills = found.get("registers"), found.get("spills")
        binary.shared = binary.metadata.shared


def _nothing(*_args: Any) -> None:
    """Replace a function that must have no effect."""


def _no_guard(*_args: Any) -> Any:
    """Replace torch's context manager that selects a device."""
    return nullcontext()


class _Gathered:
    """Replaces the log: collects the records to write for each graph part that calls the kernel."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def add(self, record: Record, _context: Any = None) -> None:
        self._records.append(record)

    def of(self, kind: type[_R]) -> tuple[_R, ...]:
        return tuple(each for each in self._records if isinstance(each, kind))


def _kernel(name: str, source: str) -> Any:
    from torch._inductor.codecache import PyCodeCache

    return getattr(PyCodeCache.load(source), name)


def configuration_of(config: Any) -> str:
    """Return a description of a Triton configuration."""
    values = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The last line has the error, those before it the kernel or a stack of compiler passes.
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]


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


class CompileJob(Struct, frozen=True):
    """A kernel to compile, and the graph parts that call it, each with the name under which it calls the kernel."""

    key: str
    name: str
    """The kernel's name in its source."""
    source: str
    users: list[tuple[PartIdentity, str]] = field(default_factory=list)


class Metal:
    """Compiles kernels, or takes them from the cache, and records the outcomes."""

    def __init__(self, recorder: Recorder, gpu: VirtualGpu, cores: Cores) -> None:
        self._recorder = recorder
        self._gpu = gpu
        self._cores = cores
        self._cache = CompileCache(gpu.facts)
        self._folder = self._scratch()

    def jobs(self, wrapper: str, part: PartIdentity) -> list[CompileJob]:
        """Record the cached kernels of a graph part, and return jobs for the others."""
        found: dict[str, CompileJob] = {}
        with self._recorder.watching("the kernels of a graph, compiled"):
            if self._can_compile:
                for variable, name, source in sources_of(wrapper):
                    key = self._cache.key(name, source)
                    outcome = None
                    # One that waits already was not there a moment ago.
                    if key not in found:
                        outcome = self._cache.get(key)
                    if outcome is None:
                        found.setdefault(key, CompileJob(key, name, source)).users.append((part, variable))
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

    def compile(self, jobs: Iterable[CompileJob]) -> None:
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

    def _compile(self, job: CompileJob) -> None:
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

    def _record(self, outcome: CompiledKernel, users: list[tuple[PartIdentity, str]], *, cached: bool) -> None:
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

    def _fail(self, users: list[tuple[PartIdentity, str]], why: str) -> None:
        for _, kernel in users:
            self._recorder.problem(f"{kernel} for {self._gpu.facts.name}: {why}")


def _merged(jobs: Iterable[CompileJob]) -> list[CompileJob]:
    merged: dict[str, CompileJob] = {}
    for job in jobs:
        # Graph parts that were generated on different cores may call the same kernel.
        merged.setdefault(job.key, CompileJob(job.key, job.name, job.source)).users.extend(job.users)
    return list(merged.values())


def _leave_open(recorder: Recorder, built: Sequence[Built], part: PartIdentity, kernel: str) -> None:
    """Record that torch would time the configurations of a kernel to choose one."""
    candidates = tuple(TimedCandidate(kernel, "triton", _configuration(each)) for each in built)
    part.add(recorder, Undecided(part.stage, "configuration", kernel, "", candidates))


def _configuration(built: Built) -> str:
    values = {**built.blocks, "num_warps": built.warps, "num_stages": built.stages}
    return ", ".join(f"{name}={value}" for name, value in values.items())


_POLL = 0.05
"""Seconds between two checks of the workers."""
_NEXT = struct.Struct("I")
_MESSAGE = struct.Struct("IIB")
"""A worker's message: process id, job, and whether it is done; shorter than PIPE_BUF, so writes are atomic."""

Work = Callable[[int], None]
Failed = Callable[[int, str], None]


def work_off(jobs: int, work: Work, failed: Failed, cores: Cores, limit: float) -> None:
    """Run `work(number)` for each job number below `jobs`, and wait.

    The first worker uses this process's core. `failed(number, why)` is called in this process for a job whose worker
    crashes or does not finish within `limit` seconds.
    """
    if jobs:
        _Driver(jobs, work, failed, cores, limit).run()


class _Worker(Struct):
    pid: int
    on_core: bool
    """Whether the worker holds a core that must be released."""
    job: int | None = None
    since: float = field(default_factory=time.monotonic)


class _Driver:
    """A queue of jobs for the workers, and a pipe for their messages."""

    def __init__(self, jobs: int, work: Work, failed: Failed, cores: Cores, limit: float) -> None:
        self._undone = set(range(jobs))
        self._work = work
        self._failed = failed
        self._cores = cores
        self._limit = limit
        self._workers: dict[int, _Worker] = {}
        self._reader, self._writer = os.pipe()
        self._queue, filled = os.pipe()
        with os.fdopen(filled, "wb") as file:
            file.write(b"".join(map(_NEXT.pack, range(jobs))))

    def run(self) -> None:
        """Run until every job is done or has failed."""
        try:
            while self._undone:
                self._start_some()
                self._listen(_POLL)
                for worker in list(self._workers.values()):
                    self._look_after(worker)
            for worker in list(self._workers.values()):
                exit_status(worker.pid, block=True)
                del self._workers[worker.pid]
                self._free(worker)
        finally:
            for pid in self._workers:
                end(pid)
            for descriptor in (self._queue, self._reader, self._writer):
                os.close(descriptor)

    def _start_some(self) -> None:
        """Start as many workers as there are free cores and jobs; the first uses the core of this waiting process."""
        while len(self._workers) < len(self._undone):
            has_own = any(not worker.on_core for worker in self._workers.values())
            if has_own and not self._cores.take():
                return
            try:
                pid = fork(self._serve)
            except OSError as error:  # ulimit -u
                if has_own:
                    self._cores.release()
                elif not self._workers:
                    for job in list(self._undone):
                        self._fail(job, f"no process could be started: {error.strerror}")
                return
            self._workers[pid] = _Worker(pid, on_core=has_own)

    def _serve(self) -> None:
        pid = os.getpid()
        while data := os.read(self._queue, _NEXT.size):
            (job,) = _NEXT.unpack(data)
            os.write(self._writer, _MESSAGE.pack(pid, job, False))
            self._work(job)
            os.write(self._writer, _MESSAGE.pack(pid, job, True))

    def _listen(self, seconds: float) -> None:
        while select.select([self._reader], [], [], seconds)[0]:
            seconds = 0
            for pid, job, done in _MESSAGE.iter_unpack(os.read(self._reader, _MESSAGE.size * 256)):
                worker = self._workers[pid]
                worker.job, worker.since = None if done else job, time.monotonic()
                if done:
                    self._undone.discard(job)

    def _look_after(self, worker: _Worker) -> None:
        late = worker.job is not None and time.monotonic() - worker.since > self._limit
        if late:
            os.kill(worker.pid, signal.SIGKILL)
        status = exit_status(worker.pid, block=late)
        if status is None:
            return
        self._listen(0)  # read the worker's last message
        del self._workers[worker.pid]
        self._free(worker)
        if worker.job is not None:
            self._fail(worker.job, f"took more than {self._limit:.0f} s" if late else _how(status))
        elif status != 0 and not self._workers:  # it ended between two jobs
            for job in list(self._undone):
                self._fail(job, _how(status))

    def _fail(self, job: int, why: str) -> None:
        self._undone.discard(job)
        self._failed(job, why)

    def _free(self, worker: _Worker) -> None:
        if worker.on_core:
            self._cores.release()


def _how(status: int) -> str:
    if status < 0:
        return f"crashed: {signal.Signals(-status).name}"
    return f"ended with status {status}"
