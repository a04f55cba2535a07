"""`ctrace runs`: list, keep, rename and delete saved runs."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrace.cli import command_options as opt

if TYPE_CHECKING:
    from ctrace.inspector.runs.store import SavedRun, Store

EXAMPLES = """\b
Examples:
  ctrace runs                       list them, the last one at the bottom
  ctrace runs --prune 3             delete all but the last three
  ctrace runs --keep NAME           keep a run; --unkeep undoes it
  ctrace runs --rename NAME before  rename a run, and keep it
  ctrace explain NAME               show a run again
"""

Prune = Annotated[
    int | None,
    typer.Option("--prune", metavar="N", min=0, help="Delete all but the last N runs; never those kept or in use."),
]
Keep = Annotated[str | None, typer.Option("--keep", metavar="RUN", help="Keep a run when newer runs replace old ones.")]
Unkeep = Annotated[str | None, typer.Option("--unkeep", metavar="RUN", help="Undo --keep.")]
Rename = Annotated[
    tuple[str, str] | None, typer.Option("--rename", metavar="RUN NAME", help="Rename a run, and keep it.")
]


def runs(
    prune: Prune = None,
    keep: Keep = None,
    unkeep: Unkeep = None,
    rename: Rename = None,
    json: opt.Json = False,
    output: opt.Output = None,
) -> None:
    """List the runs in .ctrace/; the last 10 stay, as do named and kept runs."""
    from ctrace.cli.console import say
    from ctrace.cli.show import show_document
    from ctrace.inspector.runs.store import Store

    store = Store()
    changes = {"--prune": prune, "--keep": keep, "--unkeep": unkeep, "--rename": rename}
    if _changed(store, {option: value for option, value in changes.items() if value is not None}):
        return
    found = store.runs()
    for what in store.damaged():
        say(f"ctrace: {what}; skipped")
    # A program that reads JSON gets an empty list, and no sentence.
    if found or json:
        show_document(found, output, json=json, screen=_screen)
    else:
        say(f"No runs in {store.root} yet. Create one: ctrace explain model.py")


def _changed(store: "Store", changes: "dict[str, Any]") -> bool:
    """Apply the requested change; return whether there is one.

    Raises:
        CtraceError: two changes are requested, or the change fails.
    """
    from ctrace.cli.console import say
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.runs import run_names as naming

    if len(changes) > 1:
        raise TargetError(f"{' and '.join(changes)} exclude each other", "run them one after the other")
    match next(iter(changes.items()), None):
        case None:
            return False
        case "--prune", number:
            say(_pruned(store, number))
        case "--keep", name:
            say(f"{naming.keep(store, name).name} is kept until you delete it")
        case "--unkeep", name:
            say(f"{naming.unkeep(store, name).name} is no longer kept; newer runs will replace it")
        case "--rename", (old, new):
            say(f"{old} is now {naming.rename(store, old, new)}, and kept")
    return True


def _pruned(store: "Store", number: int) -> str:
    """Delete runs; return how many, and why others stay."""
    from ctrace.inspector.knowledge.counting import count

    gone = store.prune(number)
    left = store.runs()
    summary = f"Deleted {len(gone)} of {count(len(gone) + len(left), 'run')}"
    kept, active = sum(run.is_kept for run in left), sum(run.is_active for run in left)
    others = len(left) - kept - active - number
    stays = [f"{kept} kept"] * bool(kept) + [f"{active} still running"] * bool(active)
    stays += [f"{others} in use, or not yours to delete"] if others > 0 else []
    if stays:
        return f"{summary}; {', '.join(stays)}"
    return summary


_COLUMNS = ("run", "when", "code", "verdict", "contents", "time")
_SHORT = 7
"""The letters of a commit's name that the list shows."""


def _screen(found: "list[SavedRun]", _width: int) -> opt.Screen:
    import time

    from rich.table import Table
    from rich.text import Text

    from ctrace.reports.format import count, one, one_line, seconds

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    codes = [_code(run) for run in found]
    # Most folders are no repository.
    columns = [each for each in _COLUMNS if each != "code" or any(codes)]
    for column in columns:
        # The name of a run is typed again, so it stays whole.
        table.add_column(column, no_wrap=column in ("run", "when", "time"), overflow="ellipsis")
    for run, code in zip(found, codes, strict=True):
        summary = run.summary
        verdict = one(str(summary.get("verdict", "running" if run.is_active else "cut off")).replace("_", " "), 40)
        what = ", ".join(
            count(number, noun)
            for noun in ("graph", "break", "recompile")
            # That there is no graph is news, that there is no break is not.
            if (number := int(summary.get(f"{noun}s", 0))) or (noun == "graph" and "graphs" in summary)
        )
        if summary.get("target_gpu"):
            what += f", for {one_line(str(summary['target_gpu']), 40)}"
        if options := _options(run):
            what += f", {one_line(options, 80)}"
        if run.is_kept:
            what += ", kept" if what else "kept"
        when = time.strftime("%d %b %H:%M", time.localtime(run.created))
        took = seconds(run.seconds) if run.seconds else ""
        cells = (one(run.name), when, code, verdict, what, took)
        shown = (cell for cell, column in zip(cells, _COLUMNS, strict=True) if column in columns)
        table.add_row(*map(Text, shown))
    yield table


def _code(run: "SavedRun") -> str:
    """Return the branch and the commit that a run was captured at; empty: not known."""
    from ctrace.reports.format import one

    branch, commit = (str(run.summary.get(name) or "") for name in ("branch", "commit"))
    return one(f"{branch} {commit[:_SHORT]}".strip(), 40)


def _options(run: "SavedRun") -> str:
    """Say which options a run was captured with; empty: none, or not known."""
    from ctrace.cli.command_options import words_of
    from ctrace.inspector.runs.capture_request import CaptureRequest

    try:
        options = CaptureRequest.from_file(run.request).options
    # A request that is damaged, or of a version of ctrace with other options.
    except (OSError, ValueError):
        return ""
    if options.caches is not None:
        return "of ctrace time --compile"
    words = [*words_of(options), *(f"--{name}" for name in ("build", "fast", "fullgraph") if getattr(options, name))]
    words += ["--backend", options.backend] if options.backend else []
    if words:
        return f"with {shlex.join(words)}"
    return ""
