"""`ctrace memory`: where the memory goes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt

if TYPE_CHECKING:
    from ctrace.inspector.runs.capture_request import Options

EXAMPLES = """\b
Examples:
  ctrace memory model.py                   what is alive at the peak, and where?
  ctrace memory model.py --train           forward and backward, eager beside compiled
  ctrace memory model.py --train --build   also measured
  ctrace memory model.py --train --fake    a model that does not fit here
  ctrace memory net.py:Net --input "float32[8,128]" --json
  ctrace memory model.py --calls 5         what stays alive, call after call?
  ctrace memory model.py --train --try     what lowers the peak? tried, not guessed
  ctrace memory model.py --train --fit batch --target h100    the largest that fits
  ctrace memory train.py -- --epochs 1     a program, with its optimizer
  ctrace memory model.py --train --world 8 --rank 3    one rank of a job, without the others
"""

Target = Annotated[
    str | None,
    typer.Argument(help="A model: a file, file.py:name or pkg.mod:name; or a program.", show_default=False),
]
Arguments = Annotated[list[str] | None, typer.Argument(help="Arguments of the program.", show_default=False)]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="Stop after SECONDS, without a result."),
]
BuildOption = Annotated[
    bool, typer.Option("--build", help="Also run the kernels, eager and compiled, and measure both peaks.")
]
CallsOption = Annotated[
    int,
    typer.Option(
        "--calls",
        metavar="N",
        min=0,
        show_default=False,
        help="Also make the same call N times, and name what stays alive after each, and what holds it.",
    ),
]
TryOption = Annotated[
    bool, typer.Option("--try", help="Also try what may lower the peak: each change is made, and the step taken again.")
]
BudgetOption = Annotated[
    str,
    typer.Option(
        "--budget", metavar="TIME", help="With --try, begin no further trial after this time, such as 60s or 5m."
    ),
]
FitOption = Annotated[
    str | None,
    typer.Option(
        "--fit",
        metavar="WHAT",
        help="Find the largest batch that fits, or with 0.1 the largest dimension 1 of input 0; without weights.",
    ),
]
LimitOption = Annotated[
    str | None, typer.Option("--target", metavar="GPU", help="With --fit, the GPU whose memory it has to fit into.")
]
PerfettoOption = Annotated[
    Path | None,
    typer.Option("--perfetto", metavar="FILE", help="Write the step as counters that Perfetto opens: bytes by kind."),
]


def memory(
    target: Target = None,
    args: Arguments = None,
    json: opt.Json = False,
    output: opt.Output = None,
    inputs: opt.Inputs = None,
    train: opt.Train = False,
    build: BuildOption = False,
    calls: CallsOption = 0,
    try_options: TryOption = False,
    budget: BudgetOption = "120s",
    perfetto: PerfettoOption = None,
    fit: FitOption = None,
    gpu: LimitOption = None,
    fake: opt.Fake = False,
    assume: opt.Assume = None,
    layers: opt.Layers = None,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    fullgraph: opt.Fullgraph = False,
    timeout: TimeoutOption = None,
    rank: opt.Rank = None,
    world: opt.World = None,
    mesh: opt.Mesh = None,
) -> None:
    """Find where the memory goes: what is alive at the peak, by line."""
    from ctrace.cli.compile_time_views import naming_perfetto
    from ctrace.cli.console import check_output, write_report
    from ctrace.cli.progress import progress
    from ctrace.cli.show import show_document
    from ctrace.inspector.errors import Exit, TargetError
    from ctrace.inspector.facts.memory_facts import StepMemoryDocument
    from ctrace.inspector.features.memory.memory_run import memory_of
    from ctrace.inspector.runs.capture_request import Options
    from ctrace.inspector.runs.target import ProgramTarget, resolve
    from ctrace.reports.terminal.memory_screen import memory_screen

    check_output(output)
    seconds = opt.seconds_of(budget) or 0.0
    if perfetto is not None:
        naming_perfetto(lambda: check_output(perfetto))
    if target is None:
        todo = "name a model or a program: ctrace memory model.py"
        raise TargetError("no target: tensors are followed while a model runs, and are not read from a run", todo)
    options = Options(
        tuple(inputs or ()),
        train=train,
        build=build,
        fake=fake,
        assume=tuple(assume or ()),
        layers=layers,
        mode=mode,
        dynamic=dynamic,
        fullgraph=fullgraph,
        world=world,
        mesh=mesh,
        rank=rank,
    )
    # Before the rest: a search chooses the sizes itself, and needs no single step.
    if fit is not None:
        _show_fit(target, options, fit, gpu, output, timeout, json=json)
        return
    if gpu is not None:
        what = "--target is the limit of --fit; the peak is computed for the device that the model runs on"
        raise TargetError(what, f"ctrace memory {target} --fit batch --target {gpu}")
    is_program = isinstance(resolve(target, args or (), has_inputs=bool(options.inputs)), ProgramTarget)
    with progress(is_program=is_program) as shown:
        found = memory_of(
            target,
            options,
            args=args or (),
            timeout=timeout,
            observe=lambda: shown.observe(None),
            output=shown.child_output,
            calls=calls,
            tries_options=try_options,
            budget=seconds,
            # A program has the terminal to itself.
            say=(lambda _text: None) if is_program else shown.say,
        )
    # --world without --rank is rank 0.
    in_job = None if world is None else rank or 0
    document = StepMemoryDocument(target, found, str(Path.cwd()), in_job, world)
    if perfetto is not None:
        from ctrace.reports.perfetto import render_memory_perfetto

        naming_perfetto(lambda: write_report(render_memory_perfetto(document), perfetto))
    show_document(document, output, json=json, screen=memory_screen)
    if found.program not in (None, "exit code 0"):
        raise typer.Exit(Exit.PROGRAM)


def _show_fit(
    target: str,
    options: "Options",
    what: str,
    gpu: str | None,
    output: Path | None,
    timeout: float | None,
    *,
    json: bool,
) -> None:
    """Find the largest input that fits, and show it."""
    from msgspec.structs import replace

    from ctrace.cli.progress import progress
    from ctrace.cli.show import show_document
    from ctrace.inspector.features.memory.memory_run import fit_of
    from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named
    from ctrace.reports.terminal.memory_screen import fit_screen

    limit = None if gpu is None else gpu_named(gpu)
    with progress() as shown:
        shown.say("searching the largest size")
        found = fit_of(
            target,
            options,
            what,
            limit,
            timeout=timeout,
            observe=lambda: shown.observe(None),
            output=shown.child_output,
        )
    show_document(replace(found, target=target, cwd=str(Path.cwd())), output, json=json, screen=fit_screen)
