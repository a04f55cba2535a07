"""The `ctrace` command: join its subcommands, and turn errors into two lines and an exit code."""

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from ctrace import __version__
from ctrace.cli.commands import (
    autotune,
    breaks,
    browse,
    bytecode,
    check,
    cudagraphs,
    diff,
    doctor,
    explain,
    fix,
    fusion,
    graphs,
    guards,
    ranks,
    recompiles,
    report,
    repro,
    run,
    runs,
    schema,
    serve,
    shapes,
    targets,
    time,
)
from ctrace.cli.commands.kernels import apply, edit, eject, listing, tune, wrap
from ctrace.cli.console import complain, guarded_streams, say
from ctrace.cli.signals import EndedBySignal, ending_in_order
from ctrace.inspector.errors import CtraceError, Exit, RunError
from ctrace.inspector.files.disk_errors import is_of_the_system, reason, remedy

# Plain help: decorated help takes more time than the rest of `ctrace --help`.
_app = typer.Typer(
    name="ctrace",
    help="Show what torch.compile did to a model, why, and what to change.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(command: Callable[..., None], examples: str, **settings: Any) -> None:
    """Add a command; the list of commands shows the whole first line of its help, which typer would cut."""
    _app.command(epilog=examples, short_help=(command.__doc__ or "").partition("\n")[0], **settings)(command)


_add(explain.explain, explain.EXAMPLES)
_add(breaks.breaks, breaks.EXAMPLES)
_add(recompiles.recompiles, recompiles.EXAMPLES)
_add(guards.guards, guards.EXAMPLES)
_add(shapes.shapes, shapes.EXAMPLES)
_add(bytecode.bytecode, bytecode.EXAMPLES)
_add(graphs.graphs, graphs.EXAMPLES)
_add(fusion.fusion, fusion.EXAMPLES)
_add(listing.kernels, listing.EXAMPLES)
_add(eject.eject, eject.EXAMPLES, name="kernels eject")
_add(apply.apply, apply.EXAMPLES, name="kernels apply")
_add(tune.tune, tune.EXAMPLES, name="kernels tune")
_add(edit.edit, edit.EXAMPLES, name="kernels edit")
_add(wrap.wrap, wrap.EXAMPLES, name="kernels wrap")
_add(time.time, time.EXAMPLES)
_add(cudagraphs.cudagraphs, cudagraphs.EXAMPLES)
_add(autotune.autotune, autotune.EXAMPLES)
_add(diff.diff, diff.EXAMPLES)
_add(ranks.ranks, ranks.EXAMPLES)
_add(report.report, report.EXAMPLES)
_add(serve.serve, serve.EXAMPLES)
_add(browse.browse, browse.EXAMPLES)
_add(check.check, check.EXAMPLES)
_add(fix.fix, fix.EXAMPLES)
_add(repro.repro, repro.EXAMPLES)
_PROGRAM_WORDS = {"allow_extra_args": True, "ignore_unknown_options": False, "allow_interspersed_args": False}
_add(run.run, run.EXAMPLES, context_settings=_PROGRAM_WORDS)
_add(runs.runs, runs.EXAMPLES)
_add(targets.targets, targets.EXAMPLES)
_add(schema.schema, schema.EXAMPLES)
_add(doctor.doctor, doctor.EXAMPLES)


@_app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="With --version, also print what a bug report needs.")
    ] = False,
) -> None:
    if version:
        print(f"ctrace {__version__}")
        if verbose:
            _print_surroundings()
        raise typer.Exit
    if context.invoked_subcommand is None:
        context.fail("Missing command.")


def _print_surroundings() -> None:
    """Print the versions of what ctrace depends on, without importing it."""
    import platform
    from importlib import metadata

    print(f"python {platform.python_version()} ({platform.python_implementation()}), {platform.platform()}")
    for name in ("torch", "triton", "msgspec", "typer", "rich", "pyyaml"):
        try:
            print(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            print(f"{name} is not installed")
    print(f"{os.cpu_count()} cores; CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}")


def app(prog_name: str | None = None) -> None:
    """Run the command line; never returns."""
    _open_standard_streams()
    with guarded_streams():
        _ending(prog_name)


def _ending(prog_name: str | None) -> None:
    """Run the command, and turn exceptions into a message and an exit code."""
    try:
        with ending_in_order():
            _run(prog_name)
    except EndedBySignal as signal:
        # The program and all its processes end with this process (`inspector/processes/watcher.py`).
        say(f"ctrace: ended by {signal.name}")
        raise
    except CtraceError as error:
        _refuse(error)
    except BrokenPipeError:
        # The reader closed the pipe; keep Python from failing when it flushes the rest.
        _leave_stdout()
        sys.exit(Exit.DONE)
    except OSError as error:
        if not is_of_the_system(error):
            _report_bug()
        _refuse(_system_error(error))
    except Exception:
        _report_bug()


def _run(prog_name: str | None) -> None:
    """Run the command, and flush stdout while a failure can still be reported."""
    try:
        _app(joined(run.separated(sys.argv[1:])), prog_name=prog_name)
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            _leave_stdout()
            raise _no_report(error) from None


_BELOW = ("apply", "edit", "eject", "tune", "wrap")
"""Second words of `ctrace kernels`; a target of such a name is written as `./eject`."""


def joined(words: list[str]) -> list[str]:
    """Join `kernels eject` to the name of one command; `kernels` alone takes a target as its first word."""
    if words[:1] == ["kernels"] and len(words) > 1 and words[1] in _BELOW:
        return [" ".join(words[:2]), *words[2:]]
    return words


def _leave_stdout() -> None:
    """Point a broken stdout at the null device, so that the rest is dropped."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(error: CtraceError) -> NoReturn:
    complain(error.what, error.todo)
    sys.exit(error.exit_code)


def _system_error(error: OSError) -> RunError:
    """Turn a system error into a ctrace error; without a file name it is about stdout: others are caught earlier."""
    if error.filename is None:
        return _no_report(error)
    return RunError(f"{error.filename}: {reason(error)}", remedy(error))


def _no_report(error: OSError) -> RunError:
    return RunError(f"the report cannot be written: {reason(error)}", "redirect stdout, or name a file with -o")


def _open_standard_streams() -> None:
    """Replace closed standard streams by the null device; otherwise the next file that is opened gets their number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _report_bug() -> NoReturn:
    import traceback  # slow to import

    traceback.print_exc()
    print("ctrace: this is a bug in ctrace; please report it with the lines above", file=sys.stderr)
    sys.exit(Exit.BUG)
