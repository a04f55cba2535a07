"""The `ctrace` command: join its subcommands, and turn errors into two lines and an exit code."""

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from ctrace.cli.console import complain, guarded_streams, say
from ctrace.cli.streams import EndedBySignal, drop, ending_in_order, ending_signal, open_standard_streams
from ctrace.inspector.errors import CtraceError, Exit, RunError, TargetError, did_you_mean
from ctrace.inspector.files.disk_errors import explained, is_of_the_system, reason
from ctrace.inspector.version import __version__

_DOOR = "door:"
_GROUPS = {
    "Start here": ("explain", "door:fix", "door:check"),
    "Look closer": (
        "breaks", "recompiles", "guards", "shapes", "graphs", "fusion", "door:bytecode", "report", "browse",
    ),
    "Compare": ("door:diff", "door:ranks", "door:collectives", "door:accuracy", "door:upgrade"),
    "Speed": ("door:time", "door:memory", "cudagraphs", "autotune"),
    "Kernels": (
        "kernels", "door:kernels eject", "door:kernels apply", "door:kernels tune", "door:kernels edit",
        "door:kernels wrap",
    ),
    "Tools": ("run", "runs", "serve", "door:repro", "targets", "schema", "doctor"),
}  # fmt: skip
"""All commands, in the groups and in the order of `ctrace --help`: that in which people need them.

A command behind `door:` needs a feature: it is offered if the feature whose door names it is there.
"""
_PANELS = {name.removeprefix(_DOOR): group for group, names in _GROUPS.items() for name in names}
_OF_CORE = frozenset(name for names in _GROUPS.values() for name in names if not name.startswith(_DOOR))
_COLLECT_AFTER = 50_000
"""How many new objects start a search for garbage: with Python's 700, a view spends a twentieth of its time on it."""
_SETTINGS: dict[str, dict[str, Any]] = {
    "run": {
        "context_settings": {
            "allow_extra_args": True,
            "ignore_unknown_options": False,
            "allow_interspersed_args": False,
        }
    }
}


class GroupedCommands(TyperGroup):
    """List commands in their panels, as typer's decorated help does, and subcommands below their command."""

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the commands, a section for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            _, space, below = name.partition(" ")
            shown = f"  {below}" if space else name
            panels.setdefault(_PANELS[name], []).append((shown, command.get_short_help_str()))
        widest = max(len(shown) for rows in panels.values() for shown, _ in rows)
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(shown.ljust(widest), text) for shown, text in rows])


def command_line(words: Sequence[str] = ()) -> typer.Typer:
    """Return the command that the first word names; if it names none, as in `ctrace --help`, return all commands.

    Importing the other commands, and having typer read their parameters, would take a third of a view's time.
    """
    # Plain help: decorated help takes more time than the rest of `ctrace --help`.
    commands = typer.Typer(
        name="ctrace",
        cls=GroupedCommands,
        help="Show what torch.compile did to a model, why, and what to change.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # `ctrace --version` names no command.
    commands.callback(invoke_without_command=True)(_options)
    # A command of the core needs no look at the doors of all features.
    for name in words[:1] if words and words[0] in _OF_CORE else _named(words):
        _add(commands, name)
    return commands


def _named(words: Sequence[str]) -> list[str]:
    """Return the command that the first word names, if it is one of a feature that is there; else all commands."""
    from ctrace.inspector.features.doors import doors

    offered = _OF_CORE.union(*(door.commands for door in doors().values()))
    if words and words[0] in offered:
        return [words[0]]
    return [name for name in _PANELS if name in offered]


def _add(commands: typer.Typer, name: str) -> None:
    """Add a command; the list of commands shows the whole first line of its help, which typer would cut."""
    module = import_module(f"ctrace.cli.commands.{name.replace(' ', '_')}")
    command = getattr(module, name.rpartition(" ")[2])
    short = (command.__doc__ or "").partition("\n")[0]
    settings = {"epilog": module.EXAMPLES, "rich_help_panel": _PANELS[name], **_SETTINGS.get(name, {})}
    commands.command(name, short_help=short, **settings)(command)


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


_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for a wrong command line; typer exports only this subclass of it."""


def app(prog_name: str | None = None) -> None:
    """Run the command line; never returns."""
    gc.set_threshold(_COLLECT_AFTER)
    open_standard_streams()
    with guarded_streams():
        _ending(prog_name)


def _ending(prog_name: str | None) -> None:
    """Run the command, and turn exceptions into a message and an exit code."""
    try:
        with ending_in_order():
            _run(prog_name)
    except EndedBySignal as signal:
        _leave(signal)
    except CtraceError as error:
        _refuse(error)
    except _UsageError as error:
        _refuse_words(error)
    except OSError as error:
        if not is_of_the_system(error):
            _report_bug()
        _refuse(_system_error(error))
    except Exception as error:
        if (behind := ending_signal(error)) is not None:
            _leave(behind)
        _report_bug()


def _run(prog_name: str | None) -> None:
    """Run the command, and flush stdout while a failure can still be reported."""
    try:
        words = joined(_separated(sys.argv[1:]))
        code = command_line(words)(words, prog_name=prog_name, standalone_mode=False)
    finally:
        try:
            sys.stdout.flush()
        except OSError as error:
            # Python flushes once more at its end, and would fail there with a message of its own and exit code 120.
            drop(sys.stdout)
            raise _no_report(error) from None
    sys.exit(code or 0)


def _separated(words: list[str]) -> list[str]:
    """Separate the options of `ctrace run` from its program."""
    if words[:1] != ["run"]:
        return words
    from ctrace.cli.commands.run import separated

    return separated(words)


_BELOW = ("apply", "edit", "eject", "tune", "wrap")
"""Second words of `ctrace kernels`; a target of such a name is written as `./eject`."""


def joined(words: list[str]) -> list[str]:
    """Join `kernels eject` to the name of one command; `kernels` alone takes a target as its first word."""
    if words[:1] == ["kernels"] and len(words) > 1 and words[1] in _BELOW:
        return [" ".join(words[:2]), *words[2:]]
    return words


def _leave(signal: EndedBySignal) -> NoReturn:
    """End with the signal's exit code; all processes of the command end with this one (`processes/watcher.py`)."""
    say(f"ctrace: ended by {signal.name}")
    raise signal


def _refuse(error: CtraceError) -> NoReturn:
    complain(error.what, error.todo)
    sys.exit(error.exit_code)


def _refuse_words(error: Any) -> NoReturn:
    """Report a wrong command line in two lines; without any word, show the help."""
    message = error.format_message()
    if "\n" in message:  # the help, which typer raises for a command without words
        print(message, file=sys.stderr)
        sys.exit(error.exit_code)
    context = error.ctx
    where = "ctrace"
    if context is not None and context.parent is not None:  # inside of a command
        where = f"ctrace {context.info_name}"
    if context is not None and hasattr(error, "possibilities"):  # only an unknown option has them
        _refuse(_unknown_option(error, where))
    _refuse(_other_words(message, where))


def _unknown_option(error: Any, where: str) -> TargetError:
    names = (name for each in error.ctx.command.params for name in (*each.opts, *each.secondary_opts))
    known = [name for name in names if name.startswith("-")]  # arguments are parameters too
    todo = did_you_mean(error.option_name, known, f"{where} -h lists the options")
    return TargetError(f"there is no option {error.option_name}", todo)


def _other_words(message: str, where: str) -> TargetError:
    """Make two lines of a message of typer, such as `No such command 'x'. Did you mean 'y'?`."""
    what, asks, guess = message.partition(" Did you mean ")
    todo = f"{where} -h shows how to write it"
    if asks:
        todo = f"did you mean {guess}"
    return TargetError(f"{what[:1].lower()}{what[1:]}".rstrip("."), todo)


def _system_error(error: OSError) -> RunError:
    """Turn a system error into a ctrace error; without a file name it is about stdout: others are caught earlier."""
    known = explained(error)
    if known is None:
        return _no_report(error)
    return RunError(*known)


def _no_report(error: OSError) -> RunError:
    return RunError(f"the report cannot be written: {reason(error)}", "redirect stdout, or name a file with -o")


def _report_bug() -> NoReturn:
    import traceback  # slow to import

    traceback.print_exc()
    print("ctrace: this is a bug in ctrace; please report it with the lines above", file=sys.stderr)
    sys.exit(Exit.BUG)
