"""`ctrace ranks`: compare all ranks of a job, and show where the first one differs.

Of a virtual job (`TARGET --world N`), ranks are captured first, each as a run of its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request, on_a_run

if TYPE_CHECKING:
    from ctrace.inspector.features.compare.ranks_of_job import Job

EXAMPLES = """\b
Examples:
  ctrace ranks logs/                  compare the logs of all ranks
  ctrace ranks logs/ --world-size 8   also name the ranks without a log
  ctrace ranks train.py --world 1024 -- --steps 2    before the job runs
  ctrace ranks model.py --world 64 --mesh dp=8,tp=8 --train
  ctrace ranks train.py --world 1024 --ranks 0,7,1023
  ctrace ranks logs/ --fail           exit with 1 unless all ranks agree
  ctrace ranks logs/ --json           the first divergence as data
  ctrace ranks logs/ --perfetto t.json   a time line over all ranks
  ctrace ranks logs/ --on ray         read the logs on a Ray cluster
  ctrace explain logs/ --rank 3       what one of the ranks compiled
"""

WorldSize = Annotated[
    int | None, typer.Option("--world-size", metavar="N", min=1, help="How many ranks the job of a folder of logs had.")
]
Fail = Annotated[bool, typer.Option("--fail", help="Exit with 1 unless all ranks are known to agree.")]
Perfetto = Annotated[
    Path | None, typer.Option("--perfetto", metavar="FILE", help="Write a trace that Perfetto opens, ranks as tracks.")
]
All = Annotated[
    bool,
    typer.Option("--all", help="Show every compilation and every group of ranks; with --world, capture every rank."),
]
Ranks = Annotated[
    str | None,
    typer.Option("--ranks", metavar="LIST", help="With --world, capture these ranks, such as 0,7,1020-1023."),
]


@on_a_run
def ranks(
    request: Request,
    world_size: WorldSize = None,
    named: Ranks = None,
    fail: Fail = False,
    all_of_it: All = False,
    perfetto: Perfetto = None,
    on: opt.On = None,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """Compare the ranks of a job: which ones compiled the same, and where the first one differs."""
    from ctrace.cli.compile_time_views import naming_perfetto
    from ctrace.cli.console import check_output
    from ctrace.cli.show import show_document
    from ctrace.inspector.errors import Exit
    from ctrace.reports.terminal.ranks_screen import ranks_screen

    check_output(output)
    if perfetto is not None:
        naming_perfetto(lambda: check_output(perfetto))
    if request.options.get("world") is not None:
        job = _before(request, world_size, named, is_all=all_of_it)
    else:
        job = _from_logs(request, world_size, named, on)
    if perfetto is not None:
        _write_trace(job, perfetto)
    show_document(job, output, json=json, screen=partial(ranks_screen, all_of_it=all_of_it))
    # None: a log is missing, and nothing is known of its rank.
    if fail and job.agree is not True:
        raise typer.Exit(Exit.WORSE)


def _from_logs(request: Request, world_size: int | None, named: str | None, on: str | None) -> "Job":
    """Compare the logs of a job that ran.

    Raises:
        CtraceError: there is no folder of logs, an option is for a target, or the logs are not one job's.
    """
    from ctrace.cli.progress import reading
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.features.compare.ranks_of_job import read_job
    from ctrace.inspector.runs.target import holds

    if request.target is None:
        raise TargetError("ranks needs a folder of logs", "name the folder that TORCH_TRACE wrote to")
    folder = Path(request.target)
    if not holds(folder.is_dir):
        # Two options of similar names are easily taken for each other.
        if world_size is not None and folder.suffix == ".py":
            what = f"--world-size {world_size} is for a folder of logs, and {folder} is a target"
            raise TargetError(what, f"run it as one rank of a job: ctrace ranks {folder} --world {world_size}")
        what = "is a file" if holds(folder.is_file) else "does not exist"
        if what == "is a file" and folder.suffix == ".py":
            todo = f"say how many ranks its job has: ctrace ranks {folder} --world N"
        elif what == "is a file":
            todo = f"one log is one rank; read it: ctrace explain {folder}"
        else:
            todo = "check its name"
        raise TargetError(f"{folder} {what}; ranks needs a folder of logs", todo)
    if named is not None:
        raise TargetError(f"--ranks {named} is for a target with --world", "leave it out: all logs are compared")
    # Options of a capture would be ignored without a word.
    if any(value not in (None, False, ()) for value in request.options.values()) or request.args:
        raise TargetError(f"{folder} has logs, and an option is for a target that runs", "leave that option out")
    engine = opt.engine_of(on)
    with reading("logs") as progress:
        return read_job(folder, world_size, progress, engine)


def _before(request: Request, world_size: int | None, named: str | None, *, is_all: bool) -> "Job":
    """Compare the ranks of a job that has not run.

    Raises:
        CtraceError: the target, or an option, is wrong.
    """
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.runs.target import holds

    world = request.options["world"]
    if request.target is None:
        raise TargetError("ranks --world needs a target", "name a model file or a program")
    if world_size is not None or holds(Path(request.target).is_dir):
        what = f"--world {world} runs a target as ranks that do not exist, and {request.target} has logs of ranks"
        if world_size is not None:
            what = "--world is for a target, and --world-size for a folder of logs"
        raise TargetError(what, f"on logs, say how many ranks the job had: --world-size {world_size or world}")
    return job_before_it_runs(request, named, is_all=is_all)


def _write_trace(job: "Job", perfetto: Path) -> None:
    """Write the time line over all ranks.

    Raises:
        RunError: no log has steps, or the file cannot be written.
    """
    from ctrace.cli.compile_time_views import naming_perfetto
    from ctrace.cli.console import write_report
    from ctrace.inspector.errors import RunError
    from ctrace.inspector.features.compare.ranks_of_job import steps_of
    from ctrace.reports.perfetto import render_ranks_perfetto

    tracks = [steps_of(log) for _, log in sorted(job.logs.items())]
    if not any(each.timeline.lanes for each in tracks):
        raise RunError(f"no trace for {perfetto}: the logs have no times of steps", "record the logs with TORCH_TRACE")
    naming_perfetto(lambda: write_report(render_ranks_perfetto(job, tracks), perfetto))


_FOLDER = "ranks"
"""Below ctrace's own folder: the logs of the last virtual job, which `ctrace explain FOLDER --rank N` reads."""


@contextmanager
def replaced_when_complete(folder: Path) -> Iterator[None]:
    """Let the block write a folder from the start; if it fails, the folder is as before.

    The old one is set aside, and not the new one moved into its place: a saved run is signed with the path of its
    folder.
    """
    from ctrace.inspector.files.scratch import delete

    before = folder.with_name(f"{folder.name}-before")
    if before.exists():  # the process that set it aside was killed
        _put_back(before, folder)
    if folder.exists():
        folder.rename(before)
    try:
        yield
    # Also Ctrl-C: some ranks of a job are no job.
    except BaseException:
        if before.exists():
            _put_back(before, folder)
        raise
    delete(before)


def _put_back(before: Path, folder: Path) -> None:
    from ctrace.inspector.files.scratch import delete

    delete(folder)
    before.rename(folder)


def job_before_it_runs(request: Request, named: str | None, *, is_all: bool) -> "Job":
    """Capture the ranks that may differ, or the named ones, and compare them.

    Raises:
        CtraceError: the target or an option is wrong, or a rank cannot be captured.
    """
    from ctrace.cli.progress import progress
    from ctrace.cli.run_request import gpu_names
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.features.compare.world_job import RankRun, named_ranks, world_job
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.child import ChildProcess
    from ctrace.inspector.runs.options import check_options
    from ctrace.inspector.runs.run_capture import capture
    from ctrace.inspector.runs.store import Store
    from ctrace.inspector.runs.target import ProgramTarget, resolve

    options = Options(**request.options)
    resolved = resolve(str(request.target), request.args, has_inputs=bool(options.inputs))
    check_options(resolved, options)
    gpus = gpu_names(request)
    if len(gpus) > 1:
        raise TargetError(f"--target {options.gpu}: this command takes one target", "name one")
    world = options.world or 1
    # None: those that may differ, which `world_job` finds out.
    ranks = tuple(range(world)) if is_all else None
    if options.rank is not None:
        ranks = (options.rank,)
    if named is not None:
        ranks = named_ranks(named, world)
    folder = Store().root / _FOLDER
    # Ranks of one job are one thing: none is pruned, and none is what `ctrace explain` shows next.
    store = Store(folder, keep=world)
    with (
        replaced_when_complete(folder),
        progress(is_program=isinstance(resolved, ProgramTarget), of=str(request.target)) as shown,
    ):

        def captured(rank: int) -> RankRun:
            child = ChildProcess()
            session = capture(
                resolved,
                replace(options, rank=rank, gpu=next(iter(gpus.values()), None)),
                store=store,
                timeout=request.timeout,
                stdout=shown.child_output,
                stderr=shown.child_output,
                observe=shown.observe,
                # Named as torch names the log of a rank, by which `--rank N` finds it.
                name=f"rank_{rank}",
                child=child,
            )
            if child.run is None:
                raise TargetError(f"the run of rank {rank} was not saved", f"check that {folder} can be written")
            return RankRun(rank, child.run.log, session)

        files = [] if resolved.path is None or resolved.path.is_dir() else [Path(resolved.path)]
        return world_job(world, options.mesh, captured, files, ranks=ranks, say=shown.say)
