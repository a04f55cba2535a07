"""Capture ranks of a virtual job, each as a run of its own, for `ctrace ranks TARGET --world N`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ctrace.cli.view_run import Request

if TYPE_CHECKING:
    from ctrace.inspector.features.compare.ranks_of_job import Job

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
    from ctrace.cli.view_run import target_names
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.features.compare.world_job import RankRun, named_ranks, world_job
    from ctrace.inspector.runs.capture import capture
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.child import ChildProcess
    from ctrace.inspector.runs.options import check_options
    from ctrace.inspector.runs.store import Store
    from ctrace.inspector.runs.target import ProgramTarget, resolve

    options = Options(**request.options)
    resolved = resolve(str(request.target), request.args, has_inputs=bool(options.inputs))
    check_options(resolved, options)
    gpus = target_names(request)
    if len(gpus) > 1:
        raise TargetError(f"--target {options.target}: this command takes one target", "name one")
    world = options.world or 1
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
                replace(options, rank=rank, target=next(iter(gpus.values()), None)),
                store=store,
                timeout=request.timeout,
                stdout=shown.child_output,
                stderr=shown.child_output,
                observe=shown.observe,
                name=f"rank_{rank}",
                child=child,
            )
            if child.run is None:
                raise TargetError(f"the run of rank {rank} was not saved", f"check that {folder} can be written")
            return RankRun(rank, child.run.log, session)

        files = [] if resolved.path is None or resolved.path.is_dir() else [Path(resolved.path)]
        return world_job(world, options.mesh, captured, files, ranks=ranks, say=shown.say)
