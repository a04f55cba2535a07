"""`ctrace ranks`: compare all ranks of a job, and show where the first one differs."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt

if TYPE_CHECKING:
    from ctrace.inspector.features.compare.ranks.job import Job

EXAMPLES = """\b
Examples:
  ctrace ranks logs/                  compare the logs of all ranks
  ctrace ranks logs/ --world-size 8   also name the ranks without a log
  ctrace ranks logs/ --fail           exit with 1 unless all ranks agree
  ctrace ranks logs/ --json           the first divergence as data
  ctrace ranks logs/ --perfetto t.json   a time line over all ranks
  ctrace ranks logs/ --on ray         read the logs on a Ray cluster
  ctrace explain logs/ --rank 3       what one of the ranks compiled
"""

Folder = Annotated[Path | None, typer.Argument(metavar="DIR", help="A folder with the logs that TORCH_TRACE wrote.")]
WorldSize = Annotated[int | None, typer.Option("--world-size", metavar="N", min=1, help="How many ranks the job had.")]
Fail = Annotated[bool, typer.Option("--fail", help="Exit with 1 unless all ranks are known to agree.")]
Perfetto = Annotated[
    Path | None, typer.Option("--perfetto", metavar="FILE", help="Write a trace that Perfetto opens, ranks as tracks.")
]
All = Annotated[bool, typer.Option("--all", help="Show every compilation and every group of ranks.")]


def ranks(
    folder: Folder = None,
    world_size: WorldSize = None,
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
    from ctrace.cli.progress import reading
    from ctrace.cli.show import show_document
    from ctrace.inspector.errors import Exit, TargetError
    from ctrace.inspector.features.compare.ranks.job import read_job
    from ctrace.inspector.runs.target import holds
    from ctrace.reports.terminal.ranks_screen import ranks_screen

    check_output(output)
    if perfetto is not None:
        naming_perfetto(lambda: check_output(perfetto))
    if folder is None:
        raise TargetError("ranks needs a folder of logs", "name the folder that TORCH_TRACE wrote to")
    if not holds(folder.is_dir):
        what = "is a file" if holds(folder.is_file) else "does not exist"
        todo = f"one log is one rank; read it: ctrace explain {folder}" if what == "is a file" else "check its name"
        raise TargetError(f"{folder} {what}; ranks needs a folder of logs", todo)
    engine = opt.engine_of(on)
    with reading("logs") as progress:
        job = read_job(folder, world_size, progress, engine)
    if perfetto is not None:
        _write_trace(job, perfetto)
    show_document(job, output, json=json, screen=partial(ranks_screen, all_of_it=all_of_it))
    if fail and job.agree is not True:
        raise typer.Exit(Exit.WORSE)


def _write_trace(job: "Job", perfetto: Path) -> None:
    """Write the time line over all ranks.

    Raises:
        RunError: no log has steps, or the file cannot be written.
    """
    from ctrace.cli.compile_time_views import naming_perfetto
    from ctrace.cli.console import write_report
    from ctrace.inspector.errors import RunError
    from ctrace.inspector.features.compare.ranks.rank_steps import steps_of
    from ctrace.reports.perfetto import render_ranks_perfetto

    tracks = [steps_of(log) for _, log in sorted(job.logs.items())]
    if not any(each.timeline.lanes for each in tracks):
        raise RunError(f"no trace for {perfetto}: the logs have no times of steps", "record the logs with TORCH_TRACE")
    naming_perfetto(lambda: write_report(render_ranks_perfetto(job, tracks), perfetto))
