"""Run a command for several GPUs at once (`--target a100,h100`), if the command can compare them."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ctrace.cli.console import check_output
from ctrace.cli.view_run import Request, target_names
from ctrace.inspector.errors import Exit, TargetError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ctrace.inspector.facts.session import Session
    from ctrace.reports.escape import Document

Screen = Callable[["Mapping[str, Session]", "Mapping[str, str]", int], "Iterable[RenderableType]"]
"""Makes a screen from the session of each GPU, the error of each other GPU, and a width."""


def shown_side_by_side(
    request: Request,
    output: Path | None,
    *,
    json: bool,
    data: "Callable[[Session], Document]",
    screen: Screen,
    others: Mapping[str, object],
) -> bool:
    """Compare the code for several GPUs if `--target` names several; return whether it does.

    Raises:
        CtraceError: the command line or the target is wrong, one of the `others` is set, or no run can be captured.
    """
    names = target_names(request)
    if len(names) < 2:
        return False
    from ctrace.cli.show import exit_code, show_either
    from ctrace.cli.targeting import sessions_for
    from ctrace.reports.json.side_by_side_json import render_side_by_side_json

    conflict = next((option for option, value in others.items() if value), None)
    if conflict is not None:
        raise TargetError(
            f"--target {','.join(names)} and {conflict} exclude each other", f"with {conflict}, name one GPU"
        )
    check_output(output)
    found = sessions_for(request, names)
    show_either(
        output,
        json=json,
        data=lambda: render_side_by_side_json(found.sessions, found.failed, data),
        screen=lambda width: screen(found.sessions, found.failed, width),
    )
    if found.is_new:
        raise typer.Exit(Exit.USAGE if found.failed else max(map(exit_code, found.sessions.values())))
    return True
