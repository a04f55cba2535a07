"""`ctrace time`: measure compiled against eager, and configurations of torch.compile against each other."""

from pathlib import Path
from typing import Annotated

import typer

from ctrace.cli import command_options as opt
from ctrace.cli.run_request import Request

EXAMPLES = """\b
Examples:
  ctrace time model.py                     is compiled faster than eager?
  ctrace time model.py --train             forward, backward, whole step
  ctrace time net.py:Net --input "float32[8,128]" --vary "0=1,64"
  ctrace time model.py --modes default,reduce-overhead,max-autotune
  ctrace time model.py --backends eager,aot_eager,inductor --timeout 120
  ctrace time model.py --modes default --options epilogue_fusion=false
  ctrace time model.py --threads 1 --rounds 30 --json
  ctrace time model.py --compile           where compile time goes; caches
  ctrace time --compile --perfetto trace.json        the last run again
"""

Target = Annotated[
    str | None,
    typer.Argument(
        help="A model: a file, file.py:name or pkg.mod:name. With --compile also a program, a saved run (default: the "
        "last) or a TORCH_TRACE log.",
        show_default=False,
    ),
]
Modes = Annotated[
    str | None, typer.Option("--modes", metavar="A,B", help="Compare modes of torch.compile, each in its own process.")
]
Backends = Annotated[str | None, typer.Option("--backends", metavar="A,B", help="Compare backends, in the same table.")]
InductorOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--options",
        metavar="KEY=VALUE",
        help="Set an option of Inductor, or several with commas between. With --modes or --backends: compare it, too.",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option("--rounds", metavar="N", min=1, help="Measure N rounds. Default: 15, up to 45 if times vary."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", min=1, help="Use N threads on the CPU. Default: torch's choice.")
]
Fresh = Annotated[
    bool, typer.Option("--fresh-inputs", help="Make new inputs for each call, instead of passing the same ones.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Also show what torch prints while it autotunes.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0, help="Stop each process after SECONDS, and report what it measured."
    ),
]

Compile = Annotated[
    bool,
    typer.Option(
        "--compile", help="Show where compile time goes, and which caches were hit, missed or bypassed, and why."
    ),
]
Perfetto = Annotated[
    Path | None, typer.Option("--perfetto", metavar="FILE", help="With --compile: write a trace that Perfetto opens.")
]
UserCaches = Annotated[
    bool, typer.Option("--user-caches", help="With --compile: use your own caches, not private ones that ctrace keeps.")
]
All = Annotated[bool, typer.Option("--all", help="With --compile: show every step, graph and look-up.")]


def time(
    target: Target = None,
    modes: Modes = None,
    backends: Backends = None,
    options: InductorOptions = None,
    rounds: Rounds = None,
    threads: Threads = None,
    fresh: Fresh = False,
    verbose: Verbose = False,
    json: opt.Json = False,
    output: opt.Output = None,
    inputs: opt.Inputs = None,
    vary: opt.Varies = None,
    train: opt.Train = False,
    mode: opt.Mode = None,
    dynamic: opt.Dynamic = None,
    fullgraph: opt.Fullgraph = False,
    backend: opt.Backend = None,
    timeout: Timeout = None,
    compile_: Compile = False,
    perfetto: Perfetto = None,
    user_caches: UserCaches = False,
    all_of_it: All = False,
    fake: opt.NoFake = False,
) -> None:
    """Measure whether compiling makes a model faster, and which mode is best."""
    opt.refuse_fake("time", "without weights, nothing can be run and timed", fake=fake)
    from ctrace.cli.compile_time_views import check_together, show_compile_time

    measuring = {
        "--modes": modes, "--backends": backends, "--options": options, "--rounds": rounds, "--threads": threads,
        "--fresh-inputs": fresh,
    }  # fmt: skip
    showing = {"--perfetto": perfetto, "--user-caches": user_caches, "--all": all_of_it}
    check_together(measuring, showing, compile_=compile_)
    if compile_:
        chosen_options = {
            "inputs": tuple(inputs or ()), "vary": tuple(vary or ()), "train": train, "mode": mode, "dynamic": dynamic,
            # Kernels are built, since that is most of what a user waits for.
            "fullgraph": fullgraph, "backend": backend, "build": True, "caches": "user" if user_caches else "private",
        }  # fmt: skip
        request = Request(target, timeout=timeout, options=chosen_options)
        show_compile_time(request, output, perfetto, json=json, all_of_it=all_of_it)
        return
    from ctrace.cli.console import check_output
    from ctrace.cli.time_steps import exit_code, resolved, show, timings
    from ctrace.inspector.features.time.measuring import Plan
    from ctrace.inspector.features.time.timing_model import configurations
    from ctrace.inspector.runs.capture_request import Options

    check_output(output)
    # A table may have one row, as of `--modes default`.
    several = modes is not None or backends is not None
    chosen = configurations(modes, backends, options or (), mode=mode, backend=backend)
    model = Options(tuple(inputs or ()), tuple(vary or ()), train=train, dynamic=dynamic, fullgraph=fullgraph)
    plan = Plan(resolved(target, model), model, chosen, rounds, threads, fresh, warm=several, timeout=timeout)
    found = timings(plan, str(target), is_table=several)
    show(found, output, json=json, verbose=verbose)
    raise typer.Exit(exit_code(found))
