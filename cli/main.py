"""The `ctrace` command: joins the commands, and turns errors into two lines and an exit code."""

import os
import sys
import traceback
from typing import Annotated

import typer

from ctrace import __version__
from ctrace.cli import (
    breaks,
    bytecode,
    check,
    doctor,
    explain,
    fusion,
    graphs,
    guards,
    kernels,
    recompiles,
    run,
    runs,
    shapes,
    targets,
)
from ctrace.inspector.errors import CtraceError, Exit

# Plain help: the decorated one costs more time than the rest of `ctrace --help` together.
_app = typer.Typer(
    name="ctrace",
    help="Say what torch.compile did to a model, why, and what to change.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_app.command(epilog=explain.EXAMPLES)(explain.explain)
_app.command(epilog=breaks.EXAMPLES)(breaks.breaks)
_app.command(epilog=recompiles.EXAMPLES)(recompiles.recompiles)
_app.command(epilog=guards.EXAMPLES)(guards.guards)
_app.command(epilog=shapes.EXAMPLES)(shapes.shapes)
_app.command(epilog=bytecode.EXAMPLES)(bytecode.bytecode)
_app.command(epilog=graphs.EXAMPLES)(graphs.graphs)
_app.command(epilog=fusion.EXAMPLES)(fusion.fusion)
_app.command(epilog=kernels.EXAMPLES)(kernels.kernels)
_app.command(epilog=check.EXAMPLES)(check.check)
_PROGRAM_WORDS = {"allow_extra_args": True, "ignore_unknown_options": False, "allow_interspersed_args": False}
_app.command(epilog=run.EXAMPLES, context_settings=_PROGRAM_WORDS)(run.run)
_app.command(epilog=runs.EXAMPLES)(runs.runs)
_app.command(epilog=targets.EXAMPLES)(targets.targets)
_app.command(epilog=doctor.EXAMPLES)(doctor.doctor)


def _print_version(value: bool) -> None:
    if value:
        print(f"ctrace {__version__}")
        raise typer.Exit


@_app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


def app(prog_name: str | None = None) -> None:
    """Run the command line; never returns."""
    try:
        _app(run.separated(sys.argv[1:]), prog_name=prog_name)
    except CtraceError as error:
        print(f"ctrace: {error.what}\n  {error.todo}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has enough; Python must not complain when it flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.DONE)
    except Exception:
        traceback.print_exc()
        print("ctrace: this is a bug of ctrace; please report it with the lines above", file=sys.stderr)
        sys.exit(Exit.BUG)
