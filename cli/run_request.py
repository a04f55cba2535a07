"""Parse the target of a command that views a run, and capture it unless it is a saved run."""

import gc
import inspect
import shlex
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.cli import command_options as opt

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.child import ChildProcess
    from ctrace.inspector.runs.saving import Adds
    from ctrace.inspector.runs.store import SavedRun, Store
    from ctrace.inspector.runs.target import Resolved


class FollowedMemory(Struct, frozen=True):
    """How to follow the memory of a step."""

    tries_options: bool = False
    """Whether to try what may lower the peak."""


class Request(Struct, frozen=True):
    """The part of a command line that selects a run."""

    target: str | None = None
    args: tuple[str, ...] = ()
    timeout: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Fields of `Options` in `inspector/runs/capture_request.py`, which is imported only before a capture."""
    name: str | None = None
    """The name for the new run."""
    rank: int | None = None
    """The rank whose log to read, if the folder has the logs of several."""


def _parameters(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A file, file.py:name, pkg.mod:name, a saved run, a TORCH_TRACE log or folder, or - for a log "
            "from standard input. Default: the last run."
        ),
    ] = None,
    args: Annotated[list[str] | None, typer.Argument(help="Arguments of the program.")] = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    provoke: opt.Provoke = False,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    fullgraph: opt.Fullgraph = False,
    backend: opt.Backend = None,
    build: opt.Build = False,
    gpu: opt.TargetGpu = None,
    fake: opt.Fake = False,
    assume: opt.Assume = None,
    layers: opt.Layers = None,
    timeout: opt.Timeout = None,
    rank: opt.Rank = None,
    world: opt.World = None,
    mesh: opt.Mesh = None,
) -> Request:
    options = {
        "inputs": tuple(inputs or ()),
        "vary": tuple(vary or ()),
        "provoke": provoke,
        "train": train,
        "mode": mode,
        "dynamic": dynamic,
        "fullgraph": fullgraph,
        "backend": backend,
        "build": build,
        "gpu": gpu,
        "fake": fake,
        "assume": tuple(assume or ()),
        "layers": layers,
    }
    if world is None and mesh is None:
        return Request(target, tuple(args or ()), timeout, options, rank=rank)
    # With a world, the rank is one of it, and not one of a folder of logs.
    options |= {"world": world, "mesh": mesh, "rank": rank}
    return Request(target, tuple(args or ()), timeout, options)


def on_a_run(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared arguments and options to a command whose first parameter is a `Request`."""
    shared = inspect.signature(_parameters).parameters
    own = dict(list(inspect.signature(command).parameters.items())[1:])

    @wraps(command)
    def joined(**values: Any) -> None:
        request = _parameters(**{name: values.pop(name) for name in shared})
        command(request, **values)

    arguments = [shared["target"], shared["args"]]
    rest = [*own.values(), *(parameter for name, parameter in shared.items() if name not in ("target", "args"))]
    # Typer reads parameters from the signature, and their types from the annotations.
    joined.__signature__ = inspect.Signature([*arguments, *rest])  # type: ignore[attr-defined]
    joined.__annotations__ = {parameter.name: parameter.annotation for parameter in (*arguments, *rest)}
    return joined


def session_of(
    request: Request,
    store: "Store | None" = None,
    *,
    check_advice: bool = False,
    compare_speed: bool = False,
    judge_numbers: bool = False,
    follow_memory: "FollowedMemory | None" = None,
) -> "tuple[Session, bool]":
    """Read the selected saved run, or capture the target; return whether the run is new.

    By default, the store is that of the working directory. With `check_advice`, try the advice for a new run where
    possible. With `compare_speed`, compare a new run with eager if it builds its kernels, and find the
    line of a wrong result. With `judge_numbers`, compare each kernel of a new run in any case. With `follow_memory`,
    follow the memory of a step after a new run.

    Raises:
        CtraceError: the command line, the target or the run is wrong.
    """
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.store import Store
    from ctrace.inspector.runs.target import resolve

    store, names = store or Store(), gpu_names(request)
    if len(names) > 1:
        todo = "name one; ctrace kernels, explain and fusion compare several"
        raise TargetError(f"--target {','.join(names)}: this command takes one target", todo)
    refuse_name(request, store)
    if names:
        return _for_one_gpu(request, *next(iter(names.items())), store)
    found = saved(request.target, store, request.rank)
    if found is not None:
        return found, False
    options = Options(**request.options)
    resolved = resolve(str(request.target), request.args, has_inputs=bool(options.inputs))
    compare_speed = compare_speed and options.build
    timeout, name = request.timeout, request.name
    session = captured(
        resolved,
        options,
        timeout,
        store,
        name,
        check_advice=check_advice,
        compare_speed=compare_speed,
        find_culprits=compare_speed,
        judge_numbers=judge_numbers,
        follow_memory=follow_memory,
    )
    return session, True


def followed_memory(request: Request, *, memory: bool, tries_options: bool) -> FollowedMemory | None:
    """Return how to follow the memory of a new run; None: it is not asked for.

    Raises:
        TargetError: another option does not fit: what `ctrace memory` follows is Inductor's code for this machine.
    """
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.features.doors import require

    if not memory:
        if tries_options:
            raise TargetError("--try is for --memory: it tries what may lower the peak", "add --memory, or drop --try")
        return None
    require("memory", "--memory")
    for name, flag in (("gpu", "--target"), ("backend", "--backend")):
        if request.options.get(name) is not None:
            what = f"--memory and {flag} exclude each other: memory is that of Inductor's code for this machine"
            raise TargetError(what, "drop one of them")
    return FollowedMemory(tries_options)


def _for_one_gpu(request: Request, name: str, written: str, store: "Store") -> "tuple[Session, bool]":
    """Read the selected run if it is for the GPU, or capture the target; return whether the run is new.

    `written` is the GPU's spelling on the command line, which may be a file.

    Raises:
        CtraceError: the command line, the target or the run is wrong.
    """
    from ctrace.inspector.errors import TargetError

    found = saved(request.target, store)
    if found is None:
        return captured(*new_for_gpu(request, written), request.timeout, store, request.name), True
    if _is_for(found, name):
        return found, False
    if request.target is None:
        return captured(*again_for_gpu(request, store.load(), written), request.timeout, store), True
    what = f"{request.target} has no code for {name}"
    raise TargetError(what, f"run its model for that GPU: ctrace kernels model.py --target {written}")


def _is_for(session: "Session", name: str) -> bool:
    return session.gpu is not None and session.gpu.target == name


def again_for_gpu(request: Request, run: "SavedRun", name: str) -> "tuple[Resolved, Options]":
    """Return the target and options of a saved run, for a GPU; options of the command line override the saved ones.

    Raises:
        RunError: nothing proves that the run was captured here, or its target is outside of the project.
    """
    from ctrace.cli.console import say
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.rerun import merged, refuse_foreign, request_of, resolved_of, what_of

    saved = request_of(run)
    options = merged(saved.options, Options(**request.options))
    refuse_foreign(run, saved, f"--target {name}")
    say(f"ctrace: running {what_of(saved)} again for {name}, with the options of the last run, {run.name}")
    return resolved_of(saved), replace(options, gpu=name, build=False, caches=None)


def new_for_gpu(request: Request, name: str) -> "tuple[Resolved, Options]":
    """Return the target of the command line and its options for a GPU."""
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.target import resolve

    options = Options(**{**request.options, "gpu": name})
    return resolve(str(request.target), request.args, has_inputs=bool(options.inputs)), options


def refuse_name(request: Request, store: "Store") -> None:
    """Refuse an invalid run name before the capture.

    Raises:
        TargetError: the name is invalid or taken, or there is no new run to name.
    """
    if request.name is None:
        return
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.runs.run_names import new_name

    new_name(request.name, store)
    if request.target is None or saved(request.target, store) is not None:
        todo = f"name a model or program, or rename the saved run: ctrace runs --rename RUN {request.name}"
        raise TargetError("--name needs a new run, but this command reads a saved one", todo)


def gpu_names(request: Request) -> dict[str, str]:
    """Return the GPUs in `--target`, each once and in order, as a dict from name to spelling on the command line.

    Raises:
        CtraceError: a GPU is unknown, options exclude each other, or the project's settings are wrong.
    """
    text = request.options.get("gpu")
    if text is None:
        return {}
    from ctrace.inspector.files.writing import working_folder
    from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named
    from ctrace.inspector.runs.options import check_target
    from ctrace.inspector.runs.settings import settings_at

    check_target(build=bool(request.options.get("build")), backend=request.options.get("backend"))
    files = settings_at(working_folder()).gpus
    return {gpu_named(name, files).name: name for name in map(str.strip, text.split(","))}


def run_of(request: Request) -> str | None:
    """Return what other commands take for the run that a request reads; empty: the last one; None: it is not saved."""
    from ctrace.inspector.errors import RunError
    from ctrace.inspector.runs.store import Store

    if request.target is None:
        return ""
    if request.target == "-":
        return None
    store = Store()
    try:
        is_last = store.load(request.target).folder.resolve() == store.load().folder.resolve()
    except RunError:  # a log
        is_last = False
    rank = "" if request.rank is None else f" --rank {request.rank}"
    if is_last:
        return ""
    return f"{shlex.quote(request.target)}{rank}"


def saved(target: str | None, store: "Store", rank: int | None = None) -> "Session | None":
    """Read the saved run or log that the target names; return None if the target is to be captured.

    Raises:
        CtraceError: it cannot be read, or has no such rank.
    """
    from ctrace.cli.console import say
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.log.files import container_of, is_compressed, is_log
    from ctrace.inspector.log.folders import whole
    from ctrace.inspector.runs.load import load
    from ctrace.inspector.runs.target import holds

    if target is None:
        _refuse_rank(rank)
        for what in store.damaged():
            say(f"ctrace: {what}; skipped")
        return load(store.load())
    if target == "-":
        from ctrace.cli.incoming import session_of_input

        _refuse_rank(rank)
        return session_of_input()
    path = Path(target)
    # Any other path would leave the folder of runs.
    is_name = bool(path.parts) and not path.is_absolute() and ".." not in path.parts
    is_of_store = is_name and holds((store.root / target).is_dir)
    is_run = is_of_store or holds((path / "run.json").is_file)
    if holds(path.is_dir) and not is_run:
        return _read_log(*_log_of(path, rank), store)
    _refuse_rank(rank)
    if holds(path.is_fifo):
        from ctrace.cli.incoming import session_of_pipe

        return session_of_pipe(path)
    if holds(path.is_file):
        if path.suffix != ".py" and (what := container_of(path)):
            raise TargetError(f"{path} is {what}", "unpack it, and name the log or the folder of logs in it")
        if is_log(path) or holds(partial(is_compressed, path)):
            return _read_log(path, whole(path), store)
        return None
    if is_run:
        return load(store.load(target))
    store.refuse_deleted(target)
    return None


def _read_log(log: Path, parts: tuple[Path, ...], store: "Store") -> "Session":
    """Read a log, with an index of a large one in ctrace's own folder, and show the progress on a terminal."""
    from ctrace.cli.console import say
    from ctrace.cli.incoming import session_of_parts
    from ctrace.cli.progress import reading_log
    from ctrace.inspector.runs.load import load_log
    from ctrace.inspector.session.session_cache import FOLDER

    if parts:
        return session_of_parts(parts)
    with reading_log(log.name) as progress:
        found = load_log(log, indexes=store.root / FOLDER, progress=progress, say=lambda what: say(f"ctrace: {what}"))
    _refuse_other_file(found, log)
    gc.freeze()  # the session stays until the command ends: no garbage collection has to search its many objects
    return found


def _refuse_other_file(session: "Session", log: Path) -> None:
    """Refuse a file of which nothing is a record of torch; an empty log is one that a job has not written to yet.

    Raises:
        RunError: the file is something else.
    """
    from ctrace.inspector.errors import RunError
    from ctrace.inspector.log.files import DAMAGED, STOPPED
    from ctrace.inspector.log.reader import NO_RECORD

    seen = (session.compilations, session.unknown, session.not_shown, session.records, session.environment.torch)
    if not any(seen) and any(why in each.what for each in session.problems for why in (NO_RECORD, DAMAGED, STOPPED)):
        raise RunError(f"{log} is not a trace log: it has no record", "name a log that TORCH_TRACE wrote")


def _log_of(folder: Path, rank: int | None) -> tuple[Path, tuple[Path, ...]]:
    """Choose a log of a folder, and say which one it is if there are several."""
    from ctrace.cli.console import say
    from ctrace.inspector.log.folders import choose

    chosen = choose(folder, rank)
    for note in filter(None, (chosen.skipped, chosen.note)):
        say(f"ctrace: {note}")
    return chosen.path, chosen.parts


def _refuse_rank(rank: int | None) -> None:
    """Refuse `--rank` for anything but a folder of logs.

    Raises:
        TargetError: a rank is selected.
    """
    from ctrace.inspector.errors import TargetError

    if rank is not None:
        raise TargetError(f"--rank {rank} selects a log of a folder", "name the folder that TORCH_TRACE wrote to")


def captured(
    resolved: "Resolved",
    options: "Options",
    timeout: float | None,
    store: "Store",
    name: str | None = None,
    child: "ChildProcess | None" = None,
    *,
    check_advice: bool = False,
    compare_speed: bool = False,
    find_culprits: bool = False,
    judge_numbers: bool = False,
    follow_memory: "FollowedMemory | None" = None,
) -> "Session":
    """Check the options, then capture the target; by default it shares our terminal."""
    from ctrace.cli.console import say_left, say_unsaved
    from ctrace.cli.progress import progress
    from ctrace.inspector.features.doors import doors
    from ctrace.inspector.runs.child import ChildProcess
    from ctrace.inspector.runs.options import check_options
    from ctrace.inspector.runs.run_capture import capture
    from ctrace.inspector.runs.target import ProgramTarget

    check_options(resolved, options)
    child = child or ChildProcess(has_terminal=True)
    name_of = resolved.path.name if resolved.path is not None else str(resolved.module)
    try:
        with progress(is_program=isinstance(resolved, ProgramTarget), of=name_of) as shown:
            talk = shown.child_output

            def then(session: "Session", add: "Adds") -> "Session":
                if check_advice:
                    from ctrace.inspector.runs.trial_runner import with_trials

                    session = with_trials(session, add, resolved, options, say=shown.say, timeout=timeout)
                if (find_culprits or judge_numbers) and "accuracy" in doors():
                    from ctrace.inspector.features.accuracy.numeric_comparison import with_accuracy

                    session = with_accuracy(resolved, options, shown.say, always=judge_numbers)(session, add)
                if follow_memory is not None:
                    from ctrace.inspector.features.memory.memory_run import with_memory

                    shown.say("following tensors")
                    session = with_memory(
                        resolved,
                        options,
                        timeout=timeout,
                        observe=lambda: shown.observe(None),
                        tries_options=follow_memory.tries_options,
                        measures=options.build,
                        follows_programs=True,
                    )(session, add)
                if compare_speed and "time" in doors():
                    from ctrace.inspector.features.time.measuring import with_speed

                    session = with_speed(resolved, options, shown.say)(session, add)
                return session

            session = capture(
                resolved,
                options,
                store=store,
                timeout=timeout,
                stdout=talk,
                stderr=talk,
                observe=shown.observe,
                name=name,
                child=child,
                then=then,
            )
    finally:
        say_unsaved(store)
    say_left(child.left)
    return session
