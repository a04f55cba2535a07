"""`ctrace diff`: what changed between two runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from ctrace.cli import command_options as opt

if TYPE_CHECKING:
    from pathlib import Path

    from ctrace.inspector.features.compare.changes import DiffDocument, RunDiff

EXAMPLES = """\b
Examples:
  ctrace diff before after                two saved runs
  ctrace diff old.log new.log             two logs that TORCH_TRACE wrote
  ctrace diff before model.py             a saved run, and the model as it is
  ctrace diff model.py@default model.py@max-autotune
  ctrace diff --git main..HEAD model.py   the model at two revisions
  ctrace diff --git main..HEAD model.py --train --memory    also what grew
  ctrace diff before after --fail-on breaks,kernels --markdown
"""

Before = Annotated[
    str | None,
    typer.Argument(help="A saved run, a log, a model or program; model.py@MODE sets a mode. With --git: the target."),
]
After = Annotated[str | None, typer.Argument(help="The same, for the later run.")]
FailOn = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="KINDS",
        help="Exit with 1 if these differ: break, skip, recompile, guard, graph, fusion, kernel, time, accuracy, "
        "memory, verdict, coverage (each in the singular or plural), or any.",
    ),
]
Git = Annotated[
    str | None,
    typer.Option(
        "--git",
        metavar="A..B",
        help="Run the target at two revisions, each in a worktree that ctrace makes and removes.",
    ),
]
Memory = Annotated[
    bool, typer.Option("--memory", help="Also follow the memory of a step of new runs, and name the lines that grew.")
]
All = Annotated[bool, typer.Option("--all", help="Show every change, and how the source of kernels differs.")]


def diff(
    before: Before = None,
    after: After = None,
    fail_on: FailOn = None,
    git: Git = None,
    all_of_it: All = False,
    train: opt.Train = False,
    memory: Memory = False,
    fake: opt.Fake = False,
    json: opt.Json = False,
    markdown: opt.Markdown = False,
    output: opt.Output = None,
    timeout: opt.Timeout = None,
) -> None:
    """Show which of two runs compiled worse, and what changed: breaks, recompilations, guards, graphs, kernels."""
    from ctrace.cli.console import check_output
    from ctrace.cli.diffing import kinds
    from ctrace.cli.show import shown_format
    from ctrace.inspector.errors import Exit, TargetError
    from ctrace.inspector.features.compare.changes import DiffDocument

    form = shown_format(json=json, markdown=markdown)
    # A wrong word ends the command here, and not after two captures.
    watched = kinds(fail_on)
    check_output(output)
    if before is None:
        raise TargetError("a diff needs two runs", "name them: ctrace diff BEFORE AFTER; ctrace runs lists them")
    options = {"fake": fake, "train": train}
    names, found, run = _compared(before, after, git, timeout, options, follows_memory=memory)
    failed = tuple(what for what in watched if any(change.what is what for change in found.changes))
    _show(DiffDocument(*names, found, failed), form, output, all_of_it=all_of_it, after_run=run)
    if failed:
        raise typer.Exit(Exit.WORSE)


def _compared(
    before: str,
    after: str | None,
    git: str | None,
    timeout: float | None,
    options: "dict[str, bool]",
    *,
    follows_memory: bool,
) -> "tuple[tuple[str, str], RunDiff, str | None]":
    """Compare two runs, or a target at two revisions; the last is what other commands take for the later run.

    Raises:
        CtraceError: one of them cannot be read or captured.
    """
    from ctrace.cli.diffing import in_folder, side, with_settings, worktrees
    from ctrace.cli.run_request import Request, followed_memory
    from ctrace.inspector.errors import TargetError
    from ctrace.inspector.features.compare.compare_runs import compare

    followed = followed_memory(Request(), memory=follows_memory, tries_options=False)
    if git is not None:
        if after is not None:
            raise TargetError("--git takes one target", f"write: ctrace diff --git {git} {before}")
        with worktrees(git) as folders:
            one, other = (in_folder(folder, before, timeout, options, followed) for folder in folders)
            ends = git.split("..")
            names = f"{before} at {ends[0] or 'HEAD'}", f"{before} at {ends[-1] or 'HEAD'}"
            return names, compare(one.session, other.session), other.run
    if after is None:
        raise TargetError("a diff needs two runs", f"name the other one: ctrace diff {before} AFTER")
    one, other = (side(each, timeout, options, followed) for each in (before, after))
    found = compare(one.session, other.session)
    found = with_settings(found, (before, one.session), (after, other.session), options)
    return (before, after), found, other.run


def _show(
    document: "DiffDocument", form: str, output: "Path | None", *, all_of_it: bool, after_run: str | None
) -> None:
    from ctrace.cli.console import write_report
    from ctrace.cli.show import Format, show_document

    if form == Format.MARKDOWN:
        from ctrace.reports.diff_markdown import render_diff_markdown

        write_report(render_diff_markdown(document), output)
        return

    def screen(found: "DiffDocument", _width: int) -> opt.Screen:
        from ctrace.reports.terminal.diff_screen import diff_screen

        return diff_screen(found, all_of_it=all_of_it, after_run=after_run)

    show_document(document, output, json=form == Format.JSON, screen=screen)
