"""The views of `ctrace browse` that are screens of other commands, as colored lines."""

import io
from collections.abc import Callable, Iterable

from msgspec import Struct
from rich.console import Console, RenderableType
from rich.text import Text

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.view import compiled
from ctrace.inspector.findings.guards.view import Choice, heads
from ctrace.inspector.findings.kernels.view import parts
from ctrace.reports.terminal.breaks import breaks_screen
from ctrace.reports.terminal.compile_time import compile_time_screen
from ctrace.reports.terminal.explain import explain_screen
from ctrace.reports.terminal.fusion.screen import fusion_screen
from ctrace.reports.terminal.graphs.screen import graphs_screen
from ctrace.reports.terminal.guards.screen import guards_screen
from ctrace.reports.terminal.kernels.tables import kernels_screen
from ctrace.reports.terminal.recompiles import recompiles_screen
from ctrace.reports.terminal.shapes import shapes_screen
from ctrace.reports.terminal.widgets import drawn

_NARROWEST = 60


class View(Struct, frozen=True):
    """One entry of the list on the left."""

    name: str
    title: str
    screen: Callable[[Session, int], Iterable[RenderableType]]


VIEWS = (
    View("summary", "Summary", lambda session, width: explain_screen(session, width, verbose=True)),
    View("breaks", "Breaks", lambda session, width: breaks_screen(session, width, None, all_paths=True)),
    View("recompiles", "Recompiles", lambda session, width: recompiles_screen(session, width, all_of_it=True)),
    View("graphs", "Graphs", lambda session, width: graphs_screen(session, compiled(session), width, all_of_it=True)),
    View(
        "guards",
        "Guards",
        lambda session, width: guards_screen(session, heads(session), Choice(), width, view="tree", all_of_it=True),
    ),
    View("shapes", "Shapes", lambda session, width: shapes_screen(session, width, everything=True)),
    View("fusion", "Fusion", lambda session, width: fusion_screen(session, session.fusions, all_of_it=True)),
    View("kernels", "Kernels", lambda session, width: kernels_screen(session, parts(session), width, all_of_it=True)),
    View("time", "Time", lambda session, width: compile_time_screen(session, width, all_of_it=True)),
)


def lines_of(view: View, session: Session, width: int) -> list[Text]:
    """Draw a view for a width; an error of the view is its text."""
    width = max(_NARROWEST, width)
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard", emoji=False)
    try:
        text = str(drawn(view.screen(session, width), console))
    except CtraceError as error:
        text = f"{error.what}\n  {error.todo}"
    return [Text.from_ansi(line) for line in text.rstrip("\n").split("\n")]
