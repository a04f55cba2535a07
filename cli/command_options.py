"""Options that several commands share, each declared once."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from ctrace.inspector.processes.engines import Engine
    from ctrace.inspector.runs.capture_request import Options

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>s|m|min|h)?")
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}

Screen: TypeAlias = "Iterable[RenderableType]"
"""The parts of a screen; rich is imported only where one is drawn."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON; `ctrace schema COMMAND` prints its schema.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown, for an issue or a pull request.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the report to FILE.")]
Verbose = Annotated[
    bool,
    typer.Option("-v", "--verbose", help="Also show graphs, attention, fusion and the largest kernels."),
]
Fast = Annotated[
    bool,
    typer.Option(
        "--fast",
        help="Run only Dynamo: show graph breaks, recompilations, guards and sizes. Lower no graph, compile no "
        "backward, check no advice.",
    ),
]
On = Annotated[
    str | None,
    typer.Option("--on", metavar="ENGINE", help="Where to work: processes (default) or ray, with 'ctrace[ray]'."),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0, help="Stop after SECONDS, and report what was captured until then."
    ),
]
Build = Annotated[bool, typer.Option("--build", help="Compile and run the kernels, instead of only generating them.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SPEC",
        help='Pass an argument, such as "float32[8,128]", "mask=bool[8,n]" (a letter marks a dynamic size) or "0.5".',
    ),
]
Varies = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="WHAT=VALUES",
        help='Also call it with other inputs: "0=1,2,8" sizes of a dimension, "dtype=float64,bfloat16" of floats, '
        '"stride=transposed,noncontiguous,channels_last", "mode=train,eval", "grad=off,on,inference", '
        '"requires_grad=on,off".',
    ),
]
Provoke = Annotated[
    bool,
    typer.Option(
        "--provoke",
        help="Also try common causes of recompilation: batch 1, an odd batch, double length, train or eval, "
        "no_grad, other strides, another dtype.",
    ),
]
Train = Annotated[bool, typer.Option("--train", help="Put the model in training mode, and run the backward too.")]
Mode = Annotated[str | None, typer.Option("--mode", metavar="MODE", help="Set torch.compile's mode.")]
Dynamic = Annotated[
    bool | None, typer.Option("--dynamic/--no-dynamic", help="Set torch.compile's dynamic; by default, torch decides.")
]
TargetGpu = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="GPU",
        help="Generate code for a GPU that this machine may lack: h100, or a100,h100 to compare.",
    ),
]
Fake = Annotated[
    bool,
    typer.Option("--fake", help="Load the model without weights: no parameter and no random input gets storage."),
]
NoFake = Annotated[bool, typer.Option("--fake", hidden=True)]
"""The same option where it is refused: the command needs values."""
Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="PLACE=VALUES",
        help="With --fake or --world, what an expression is that has no value, call by call: "
        '"model.py:31:12=True,False". With --fake, def small() in the model file answers the others.',
    ),
]
Layers = Annotated[
    int | None,
    typer.Option(
        "--layers", metavar="N", min=1, help="Cut each list of equal layers to its first N, for a first look."
    ),
]
Fullgraph = Annotated[
    bool, typer.Option("--fullgraph", help="Set torch.compile's fullgraph: a graph break is an error.")
]
Backend = Annotated[str | None, typer.Option("--backend", metavar="NAME", help="Set torch.compile's backend.")]
Name = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Name the run, and keep it when newer runs replace old ones."),
]
Rank = Annotated[
    int | None,
    typer.Option(
        "--rank",
        metavar="N",
        min=0,
        help="Of a folder with the logs of several ranks, read rank N; with --world, be it.",
    ),
]
World = Annotated[
    int | None,
    typer.Option("--world", metavar="N", min=1, help="Run as one rank of a job of N ranks, without the others."),
]
Mesh = Annotated[
    str | None,
    typer.Option("--mesh", metavar="NAME=K", help="The mesh of the ranks, if not the program's own: dp=128,tp=8."),
]


def refuse_fake(command: str, why: str, *, fake: bool) -> None:
    """Refuse `--fake` where a command needs values.

    Raises:
        TargetError: it is set.
    """
    from ctrace.inspector.errors import TargetError

    if fake:
        raise TargetError(f"ctrace {command} --fake: {why}", "leave --fake out, and use a model that fits this machine")


def seconds_of(text: str | None) -> float | None:
    """Return the seconds of `120s`, `5m` or `90`; None: no limit.

    Raises:
        TargetError: it is no time.
    """
    from ctrace.inspector.errors import TargetError

    if text is None:
        return None
    match = _DURATION.fullmatch(text.strip())
    # In no time, nothing could be tried.
    if match is None or not float(match["number"]):
        raise TargetError(f"--budget {text}: not a time", "write it as 120s, 5m or 1h")
    return float(match["number"]) * _SECONDS[match["unit"]]


def engine_of(name: str | None) -> "Engine":
    """Return the engine that `--on` names, by default processes on this machine.

    Raises:
        TargetError: there is no such engine.
    """
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.processes.engines import Engine

    try:
        return Engine(name or Engine.PROCESSES)
    except ValueError:
        raise TargetError(f"--on {name}: there is no such engine", f"there are: {', '.join(Engine)}") from None


def words_of(options: "Options") -> list[str]:
    """Return options as words of a command line; these also serve as a scenario's name that no policy can have."""
    pairs = [("--vary", each) for each in options.vary] + [("--input", each) for each in options.inputs]
    words = [word for pair in pairs for word in pair]
    words += [f"--{name}" for name in ("provoke", "train", "fake") if getattr(options, name)]
    words += [word for each in options.assume for word in ("--assume", each)]
    words += ["--layers", str(options.layers)] if options.layers is not None else []
    words += ["--mode", options.mode] if options.mode else []
    if options.dynamic is not None:
        words.append("--dynamic" if options.dynamic else "--no-dynamic")
    return words
