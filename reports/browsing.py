"""`ctrace browse`: the views of a run in a terminal, and source, graph and kernels side by side.

Views that other commands have are their screens, as colored lines.

A pane of lines that draws only those in view, so that a million lines cost no more than fifty.

Source, graph and kernels of a run, and which lines and nodes belong together.

The facts are those of `ctrace graphs` and `ctrace kernels` as JSON: a node has the line that torch keeps for it, a
kernel has the nodes that it computes, and a line of its source has the user's lines that it is from.
"""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import ClassVar, TypeVar

from msgspec import Struct
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import ContentSwitcher, Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from ctrace.inspector.diagnosis.breaks_document import breaks_document
from ctrace.inspector.diagnosis.explain_document import explain_document
from ctrace.inspector.diagnosis.recompiles_document import recompiles_document
from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.compile_time_view import compile_document
from ctrace.inspector.findings.fusion_view import fusion_document
from ctrace.inspector.findings.graphs.fx import FxNode, FxNodeKind
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.graphs.graphs_document import graphs_document
from ctrace.inspector.findings.guard_view import guards_document
from ctrace.inspector.findings.kernels.kernels_document import DetailedKernel, kernels_document
from ctrace.inspector.findings.shapes_document import shapes_document
from ctrace.inspector.session.summary import run_answer, sentence
from ctrace.reports import format as fmt
from ctrace.reports.json.printer import places
from ctrace.reports.terminal.breaks_screen import breaks_screen
from ctrace.reports.terminal.compile_time_screen import compile_time_screen
from ctrace.reports.terminal.explain_screen import explain_screen
from ctrace.reports.terminal.fusion_screen import fusion_screen
from ctrace.reports.terminal.graphs_screen import graphs_screen
from ctrace.reports.terminal.guards_screen import guards_screen
from ctrace.reports.terminal.kernel_tables import kernels_tables
from ctrace.reports.terminal.recompiles_screen import recompiles_screen
from ctrace.reports.terminal.shapes_screen import shapes_screen
from ctrace.reports.terminal.widgets import drawn, led

# Chosen: wider than any terminal; a line of a generated file may have millions of letters.
_LINK_LONGEST = 400
_USUAL = ("post_grad", "forward", "inference")


class GraphNode(Struct, frozen=True):
    """A node of a graph stage, as one line."""

    name: str
    text: str
    place: str
    """`model.py:12`; empty: torch keeps no line for it."""


class KernelSource(Struct, frozen=True):
    """A kernel, with its lines."""

    key: str
    """Graph, part and name."""
    name: str
    language: str
    lines: tuple[str, ...]
    """Its source; for a library call, its calls."""
    places: frozenset[str]
    from_line: Mapping[int, tuple[str, ...]]
    """Places by index of the line."""
    stage: str
    """The stage whose nodes it names; empty: torch names none."""
    nodes: frozenset[str]


class Linked(Struct, frozen=True):
    """What belongs to a selection."""

    places: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()


class BrowsedRun:
    """The source, graphs and kernels of a run."""

    def __init__(self, session: Session) -> None:
        self._cwd = cwd = session.environment.cwd
        self._compiled = {each.id: each for each in compiled(session)}
        self.files = {
            fmt.relative(file, cwd): [_code(line) for line in text.split("\n")]
            for file, text in session.listings.items()
        }
        self.graphs = {each.id: [staged.label for staged in each.stages] for each in self._compiled.values()}
        found = kernels_document(session, has_code=True)
        self.kernels = [_kernel(each, cwd) for part in found.parts for each in part.rows]
        self._nodes: dict[tuple[str, str], list[GraphNode]] = {}

    def usual_stage(self, graph: str) -> str:
        """Return the stage to show first: the one that kernels are generated from."""
        labels = self.graphs[graph]
        return next((name for name in _USUAL if name in labels), labels[0] if labels else "")

    def nodes(self, graph: str, stage: str) -> list[GraphNode]:
        """Return the nodes of a stage, read once."""
        if (graph, stage) not in self._nodes:
            each = self._compiled.get(graph)
            stages = () if each is None else each.stages
            staged = next((one for one in stages if one.label == stage), None)
            read = None if staged is None else staged.graph
            self._nodes[graph, stage] = [] if read is None else [_node(one, self._cwd) for one in read.everything()]
        return self._nodes[graph, stage]

    def kernels_of(self, graph: str) -> list[KernelSource]:
        """Return the kernels of a graph."""
        return [each for each in self.kernels if each.key.startswith(f"{graph} ")]

    def of_places(self, places: Iterable[str], graph: str, stage: str) -> Linked:
        """Return what comes from some lines."""
        wanted = frozenset(places)
        nodes = frozenset(each.name for each in self.nodes(graph, stage) if each.place in wanted)
        kernels = frozenset(each.key for each in self.kernels_of(graph) if each.places & wanted)
        return Linked(wanted, nodes, kernels)

    def of_node(self, name: str, graph: str, stage: str) -> Linked:
        """Return what belongs to a node: the kernels that name it, else those of its line."""
        place = next((each.place for each in self.nodes(graph, stage) if each.name == name), "")
        places = frozenset((place,)) if place else frozenset()
        known = self.kernels_of(graph)
        named = frozenset(each.key for each in known if each.stage == stage and name in each.nodes)
        by_line = frozenset(each.key for each in known if each.places & places)
        return Linked(places, frozenset((name,)), named or by_line)

    def of_kernel_line(self, kernel: KernelSource, line: int, graph: str, stage: str) -> Linked:
        """Return what a line of a kernel comes from."""
        places = frozenset(kernel.from_line.get(line, ()))
        at_places = self.of_places(places, graph, stage).nodes
        nodes = at_places & kernel.nodes if kernel.stage == stage else at_places
        return Linked(places, nodes, frozenset((kernel.key,)))


def _code(line: str) -> str:
    """Return a line of code with its indentation, and nothing that a terminal could obey."""
    # Cut before the slow steps, too: a line may have millions of letters.
    return fmt.cut(fmt.plain(line[: 16 * _LINK_LONGEST].expandtabs(4)).replace("\n", "\\n"), _LINK_LONGEST)


def _node(each: FxNode, cwd: str) -> GraphNode:
    kind = f"  {each.type.dtype}[{', '.join(each.type.sizes)}]" if each.type else ""
    place = f"{fmt.relative(each.at.file, cwd)}:{each.at.line}" if each.at and each.at.file and each.at.line else ""
    if each.args:
        args = f"({each.args})"
    elif each.kind is FxNodeKind.PLACEHOLDER:
        args = "  input"
    else:
        args = ""
    return GraphNode(each.name, fmt.one_line(f"{each.name} = {each.op}{args}{kind}", _LINK_LONGEST), place)


def _kernel(each: DetailedKernel, cwd: str) -> KernelSource:
    kernel, nodes = each.kernel, each.graph_nodes
    if kernel.source:
        lines = kernel.source.split("\n")
        from_line = {one.line - 1: tuple(places(one.lines, cwd)) for one in kernel.statements}
    else:
        calls = [one for one in kernel.launches if one.lines]
        lines = [one.call or ", ".join(one.ops) for one in calls]
        from_line = {at: tuple(places(one.lines, cwd)) for at, one in enumerate(calls)}
    stage, names = (nodes.stage, nodes.names) if nodes else ("", ())
    return KernelSource(
        key=f"{kernel.graph} {kernel.stage} {kernel.name}",
        name=fmt.one(kernel.name, _LINK_LONGEST),
        language=kernel.language,
        lines=tuple(_code(line) for line in lines),
        places=frozenset(places(kernel.lines, cwd)) | {place for some in from_line.values() for place in some},
        from_line=from_line,
        stage=stage,
        nodes=frozenset(names),
    )


_LINKED = Style.parse("on #1c3a5e")
_LINKED_LIGHT = Style.parse("on #cfe4fb")
_PICKED = Style.parse("bold reverse")
# Chosen, as above: how far one can scroll to the side.
_WIDEST = 400


class Lines(ScrollView, can_focus=True):
    """Lines with a cursor and marks."""

    DEFAULT_CSS = """
    Lines { border: round $surface-lighten-2; border-title-color: $text; scrollbar-size: 0 1; }
    Lines:focus { border: round $accent; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home", "edge(0)", "Top", show=False),
        Binding("end", "edge(1)", "Bottom", show=False),
        Binding("left", "scroll_left", "Left", show=False),
        Binding("right", "scroll_right", "Right", show=False),
    ]

    class Picked(Message):
        """The user moved to a line."""

        def __init__(self, pane: "Lines", index: int) -> None:
            super().__init__()
            self.pane = pane
            self.index = index

        @property
        def control(self) -> "Lines":
            """The pane."""
            return self.pane

    def __init__(self, name: str, *, has_cursor: bool = True) -> None:
        super().__init__(id=name)
        self.count = 0
        self.cursor = -1
        self.marks: Mapping[int, str] = {}
        self._line: Callable[[int], Text] = lambda index: Text("")
        self._has_cursor = has_cursor

    def show(self, count: int, line: Callable[[int], Text], marks: Mapping[int, str], *, at: int | None = None) -> None:
        """Show lines; `line` draws one, `marks` has `linked` and `picked` by index, `at` comes into view."""
        self.count, self._line, self.marks = count, line, marks
        # A line is measured by drawing it, so the first ones stand for all.
        widest = max((line(index).cell_len for index in range(min(count, 2000))), default=0)
        self.virtual_size = Size(min(_WIDEST, widest), count)
        if at is not None:
            self.cursor = min(at, count - 1)
            self._into_view()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one row of the screen."""
        index = y + int(self.scroll_offset.y)
        width = self.scrollable_content_region.width
        if not 0 <= index < self.count:
            return Strip.blank(width, self.rich_style)
        text = self._line(index)
        strip = Strip(list(text.render(self.app.console)))
        left = int(self.scroll_offset.x)
        # Padded to the right edge, so that a mark covers the whole row.
        strip = strip.extend_cell_length(left + width).crop(left, left + width).apply_style(self.rich_style)
        mark = self.marks.get(index, "")
        if self._has_cursor and index == self.cursor and (self.has_focus or mark == "picked"):
            return Strip([Segment(each.text, (each.style or Style()) + _PICKED) for each in strip])
        if mark:
            linked = _LINKED if self.app.current_theme.dark else _LINKED_LIGHT
            return Strip([Segment(each.text, (each.style or Style()) + linked) for each in strip])
        return strip

    def action_move(self, step: int) -> None:
        """Move the cursor, or scroll where there is none."""
        if self._has_cursor:
            self._pick(self.cursor + step)
        else:
            self.scroll_relative(y=step, animate=False)

    def action_page(self, step: int) -> None:
        """Move by one screen."""
        self.action_move(step * max(1, self.scrollable_content_region.height - 1))

    def action_edge(self, end: int) -> None:
        """Move to the first or the last line."""
        if self._has_cursor:
            self._pick(self.count - 1 if end else 0)
        else:
            self.scroll_to(y=self.count if end else 0, animate=False)

    def on_click(self, event: events.Click) -> None:
        """Pick the line under the mouse."""
        offset = event.get_content_offset(self)
        if offset is not None and self._has_cursor:
            index = offset.y + int(self.scroll_offset.y)
            if index < self.count:
                self._pick(index)

    def _pick(self, index: int) -> None:
        if not self.count:
            return
        self.cursor = max(0, min(self.count - 1, index))
        self.scroll_to_region(Region(int(self.scroll_offset.x), self.cursor, 1, 1), animate=False)
        self.refresh()
        self.post_message(self.Picked(self, self.cursor))

    def _into_view(self) -> None:
        top, height = int(self.scroll_offset.y), self.scrollable_content_region.height
        if not top < self.cursor < top + height - 2:
            # A third down, so that what comes before the line is seen, too.
            self.scroll_to(y=max(0, self.cursor - height // 3), animate=False)


# Chosen: nobody reads more, and the list is built again at each key; the hint is to add words.
_MOST_FOUND = 200
# Chosen: wider than any terminal.
_LONGEST = 300
_KEYS = (
    ("1 … 9, 0", "go to a view"),
    ("Tab, Shift+Tab", "next and previous pane"),
    ("↑ ↓, j k, PgUp PgDn, Home End", "move; what belongs to the line lights up in the other panes"),
    ("← →", "scroll sideways"),
    ("[ ]", "previous and next stage of the graph"),
    ("g", "next graph"),
    ("n, p", "next and previous kernel"),
    ("f", "next source file"),
    ("/", "search everything"),
    ("?", "this list"),
    ("q", "quit"),
)


class Help(ModalScreen[None]):
    """The list of keys."""

    DEFAULT_CSS = """
    Help { align: center middle; }
    Help > Static { width: auto; max-width: 90%; padding: 1 2; border: round $accent; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        """Show the keys."""
        width = max(len(key) for key, _ in _KEYS)
        yield Static(Text("\n".join(f"{key.ljust(width)}  {what}" for key, what in _KEYS)))


class Search(ModalScreen[tuple[str, str] | None]):
    """A field, and what contains its text."""

    DEFAULT_CSS = """
    Search { align: center top; }
    Search > Vertical { width: 90%; max-width: 120; height: 80%; margin-top: 2; }
    Search > Vertical { border: round $accent; background: $surface; }
    Search OptionList { height: 1fr; border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Close"),
        Binding("down", "into_list", "Results", show=False),
    ]

    def __init__(self, items: list[tuple[str, str, str]]) -> None:
        super().__init__()
        self._items = items
        self._shown: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        """Show the field above the results."""
        with Vertical():
            yield Input(placeholder="Search lines, nodes, kernels and findings")
            yield Static("", id="found")
            yield OptionList()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what contains the text."""
        words = event.value.strip().lower()
        found = [each for each in self._items if words and words in each[2].lower()]
        self._shown = [(kind, target) for kind, target, _ in found[:_MOST_FOUND]]
        results = self.query_one(OptionList)
        results.clear_options()
        results.add_options(
            [
                Option(Text(f"{kind:<8} {fmt.one_line(text, _LONGEST)}", no_wrap=True, overflow="ellipsis"))
                for kind, _, text in found[:_MOST_FOUND]
            ]
        )
        state = fmt.count(len(found), "result") if words else ""
        self.query_one("#found", Static).update(Text(state if len(found) <= _MOST_FOUND else f"{state}; add words"))

    def on_input_submitted(self) -> None:
        """Open the first result."""
        self.dismiss(self._shown[0] if self._shown else None)

    def action_into_list(self) -> None:
        """Go from the field to the results."""
        results = self.query_one(OptionList)
        results.highlighted = 0 if results.option_count else None
        results.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open a result."""
        self.dismiss(self._shown[event.option_index])


class Browser(App[None]):
    """The application."""

    TITLE = "ctrace"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #answer { height: auto; max-height: 3; padding: 0 1; background: $surface; }
    #views { width: 16; border: none; border-right: solid $surface-lighten-2; }
    #status { height: auto; max-height: 2; padding: 0 1; color: $text-muted; }
    #code Lines { width: 1fr; }
    .narrow #views { width: 12; }
    .narrow #kernel { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("question_mark", "help", "Keys", key_display="?"),
        Binding("left_square_bracket", "stage(-1)", "Stage", key_display="["),
        Binding("right_square_bracket", "stage(1)", "Stage", key_display="]"),
        Binding("g", "graph", "Graph"),
        Binding("n", "kernel(1)", "Kernel"),
        Binding("p", "kernel(-1)", "Kernel", show=False),
        Binding("f", "file", "File"),
        *(Binding(str(number % 10), f"view({number - 1})", show=False) for number in range(1, 11)),
    ]

    def __init__(self, session: Session, name: str = "") -> None:
        super().__init__()
        self.session = session
        self.run_name = name
        self.data = BrowsedRun(session)
        self.names = [VIEWS[0].name, "code", *(view.name for view in VIEWS[1:])]
        self.file = next(iter(self.data.files), "")
        self.graph = next(iter(self.data.graphs), "")
        self.stage = self.data.usual_stage(self.graph) if self.graph else ""
        self.kernel: KernelSource | None = None
        self.linked = Linked()
        self._drawn: dict[tuple[str, int], list[Text]] = {}

    def compose(self) -> ComposeResult:
        """Lay out the answer, the views and the panes."""
        verdict = str(self.session.verdict).replace("_", " ").upper()
        answer = f"{verdict}  {fmt.one_line(sentence(self.session), 400)}"
        yield Static(Text(answer, style="bold"), id="answer")
        titles = {view.name: view.title for view in VIEWS} | {"code": "Code"}
        with Horizontal():
            yield OptionList(
                *(Option(f"{(at + 1) % 10} {titles[name]}", id=name) for at, name in enumerate(self.names)), id="views"
            )
            with ContentSwitcher(initial="text", id="content"):
                yield Lines("text", has_cursor=False)
                with Horizontal(id="code"):
                    yield Lines("source")
                    yield Lines("graph")
                    yield Lines("kernel")
        yield Static("", id="status")
        yield Footer()

    def on_mount(self) -> None:
        """Show the summary."""
        known = self.data.kernels_of(self.graph)
        self.kernel = next((each for each in known if each.language == "triton"), known[0] if known else None)
        self.query_one("#views", OptionList).highlighted = 0
        self.action_view(0)
        self.query_one("#text", Lines).focus()

    def on_resize(self) -> None:
        """Draw the views again for the new width."""
        self.set_class(self.size.width < 90, "narrow")
        # The panes get their new widths after this event.
        self.call_after_refresh(self._redraw)

    def _redraw(self) -> None:
        self._show_view() if self.view != "code" else self._show_code()

    @property
    def view(self) -> str:
        """The name of the view on the screen."""
        views = self.query_one("#views", OptionList)
        return self.names[views.highlighted or 0]

    @on(OptionList.OptionHighlighted, "#views")
    def _view_chosen(self) -> None:
        code = self.view == "code"
        self.query_one("#content", ContentSwitcher).current = "code" if code else "text"
        self.call_after_refresh(self._redraw)

    def action_view(self, number: int) -> None:
        """Go to a view."""
        if number < len(self.names):
            self.query_one("#views", OptionList).highlighted = number
            target = "#source" if self.names[number] == "code" else "#text"
            # A pane that is not on the screen yet cannot take the focus.
            self.call_after_refresh(lambda: self.query_one(target, Lines).focus())

    def _show_view(self) -> None:
        pane = self.query_one("#text", Lines)
        width = self._width()
        # Before its first layout, a pane has no width.
        if width <= 0:
            return
        view = next(each for each in VIEWS if each.name == self.view)
        key = (view.name, width)
        if key not in self._drawn:
            self._drawn[key] = lines_of(view, self.session, width)
        lines = self._drawn[key]
        pane.border_title = Text(view.title)
        pane.show(len(lines), lambda index: lines[index], {})
        self._say("")

    def _show_code(self, *, origin: str = "") -> None:
        """Fill the three panes; the one that the selection is from stays where it is."""
        self._show_source(origin)
        self._show_graph(origin)
        self._show_kernel(origin)
        nodes, kernels = fmt.count(len(self.linked.nodes), "node"), fmt.count(len(self.linked.kernels), "kernel")
        places = ", ".join(sorted(self.linked.places)[:3])
        self._say(
            f"{places} → {nodes} at {self.stage}, {kernels}"
            if places
            else "Move with the arrow keys: what belongs to a line lights up."
        )

    def _show_source(self, origin: str) -> None:
        lines = self.data.files.get(self.file, [])
        if self.linked.places and origin != "source":
            wanted = next((place for place in sorted(self.linked.places) if _file(place) in self.data.files), "")
            self.file = _file(wanted) if wanted else self.file
            lines = self.data.files.get(self.file, [])
        marks = {_line(place) - 1: "linked" for place in self.linked.places if _file(place) == self.file}
        pane = self.query_one("#source", Lines)
        pane.border_title = Text(fmt.one_line(self.file or "no source in this run", 60))
        at = None if origin == "source" else min(marks, default=None)
        pane.show(len(lines), lambda index: Text(f"{index + 1:>5}  {lines[index]}"), marks, at=at)

    def _show_graph(self, origin: str) -> None:
        nodes = self.data.nodes(self.graph, self.stage)
        marks = {at: "linked" for at, each in enumerate(nodes) if each.name in self.linked.nodes}
        pane = self.query_one("#graph", Lines)
        pane.border_title = Text(f"{self.graph} {self.stage}" if self.graph else "no graph in this run")
        pane.show(
            len(nodes),
            lambda at: Text(nodes[at].text),
            marks,
            at=None if origin == "graph" else min(marks, default=None),
        )

    def _show_kernel(self, origin: str) -> None:
        known = self.data.kernels_of(self.graph)
        if origin != "kernel" and self.linked.kernels:
            mine = [each for each in known if each.key in self.linked.kernels]
            # A kernel on the screen that is of the line stays: the pane does not change at each step through a file.
            if self.kernel not in mine:
                hits = {each.key: self._kernel_marks(each) for each in mine}
                self.kernel = max(mine, key=lambda each: len(hits[each.key]), default=self.kernel)
        pane = self.query_one("#kernel", Lines)
        if self.kernel is None:
            pane.border_title = Text("no kernel in this run")
            pane.show(0, lambda at: Text(""), {})
            return
        of = self.kernel
        marks = self._kernel_marks(of)
        pane.border_title = Text(fmt.one_line(of.name, 60))
        at = None if origin == "kernel" else min(marks, default=None)
        pane.show(len(of.lines), lambda at: Text(f"{at + 1:>4}  {of.lines[at]}"), marks, at=at)

    def _kernel_marks(self, kernel: KernelSource) -> dict[int, str]:
        if kernel.key not in self.linked.kernels:
            return {}
        return {at: "linked" for at, places in kernel.from_line.items() if self.linked.places & {*places}}

    def on_lines_picked(self, event: Lines.Picked) -> None:
        """Link the picked line with the other panes."""
        pane = event.pane.id or ""
        match pane:
            case "source":
                places = [f"{self.file}:{event.index + 1}"]
                self.linked = self.data.of_places(places, self.graph, self.stage)
            case "graph":
                name = self.data.nodes(self.graph, self.stage)[event.index].name
                self.linked = self.data.of_node(name, self.graph, self.stage)
            case "kernel" if self.kernel is not None:
                self.linked = self.data.of_kernel_line(self.kernel, event.index, self.graph, self.stage)
            case _:
                return
        self._show_code(origin=pane)

    def action_stage(self, step: int) -> None:
        """Go through the stages of the graph, with the same lines."""
        labels = self.data.graphs.get(self.graph, [])
        if self.view != "code" or not labels:
            return
        at = labels.index(self.stage) + step
        if 0 <= at < len(labels):
            self.stage = labels[at]
            self.linked = self.data.of_places(self.linked.places, self.graph, self.stage)
            # As if the source had been picked: it stays, and the other panes follow.
            self._show_code(origin="source")

    def action_graph(self) -> None:
        """Go to the next graph."""
        names = list(self.data.graphs)
        if self.view == "code" and names:
            self._open_graph(names[(names.index(self.graph) + 1) % len(names)])
            self._show_code()

    def _open_graph(self, graph: str) -> None:
        if graph != self.graph:
            self.graph, self.stage, self.linked = graph, self.data.usual_stage(graph), Linked()
            self.kernel = next(iter(self.data.kernels_of(graph)), None)

    def action_kernel(self, step: int) -> None:
        """Go to the next kernel of the graph."""
        known = self.data.kernels_of(self.graph)
        if self.view == "code" and self.kernel in known:
            self.kernel = known[(known.index(self.kernel) + step) % len(known)]
            self._show_code(origin="kernel")

    def action_file(self) -> None:
        """Go to the next source file."""
        names = list(self.data.files)
        if self.view == "code" and names:
            self.file = names[(names.index(self.file) + 1) % len(names)]
            self._show_code(origin="source")

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(Help())

    def action_search(self) -> None:
        """Search everything."""
        self.push_screen(Search(list(self._items())), self._found)

    def _items(self) -> Iterator[tuple[str, str, str]]:
        """Yield the kind of each searchable thing, where it is, and its text."""
        for view in VIEWS:
            # Views that were not opened yet are not searched: to draw them all would make the first key wait.
            for at, row in enumerate(self._drawn.get((view.name, self._width()), [])):
                yield view.name, str(at), row.plain.strip()
        for file, lines in self.data.files.items():
            for number, line in enumerate(lines, 1):
                yield "source", f"{file}:{number}", f"{file}:{number} {line.strip()}"
        for graph in self.data.graphs:
            for node in self.data.nodes(graph, self.data.usual_stage(graph)):
                yield "node", f"{graph} {node.name}", node.text
        for kernel in self.data.kernels:
            yield "kernel", kernel.key, kernel.name

    def _width(self) -> int:
        return self.query_one("#text", Lines).size.width - 1

    def _found(self, chosen: tuple[str, str] | None) -> None:
        """Go to a search result."""
        if chosen is None:
            return
        kind, target = chosen
        if kind in self.names:
            self.action_view(self.names.index(kind))
            self.call_after_refresh(lambda: self.query_one("#text", Lines).scroll_to(y=int(target), animate=False))
            return
        match kind:
            case "source":
                self.file = _file(target)
                self.linked = self.data.of_places([target], self.graph, self.stage)
            case "node":
                graph, _, name = target.partition(" ")
                self._open_graph(graph)
                self.stage = self.data.usual_stage(graph)
                self.linked = self.data.of_node(name, graph, self.stage)
            case "kernel":
                self._open_graph(target.partition(" ")[0])
                self.kernel = next(each for each in self.data.kernels if each.key == target)
                found = self.data.of_places(self.kernel.places, self.graph, self.stage)
                self.linked = Linked(found.places, found.nodes, frozenset((target,)))
        self.action_view(self.names.index("code"))
        self.call_after_refresh(self._show_code)

    def _say(self, text: str) -> None:
        self.query_one("#status", Static).update(Text(text))


def _file(place: str) -> str:
    return place.rpartition(":")[0]


def _line(place: str) -> int:
    return int(place.rpartition(":")[2])


# Chosen: below this, tables would cut numbers; the reader scrolls to the side instead.
_NARROWEST = 60


D = TypeVar("D")
Screen = Callable[[Session, int], Iterable[RenderableType]]


class View(Struct, frozen=True):
    """One entry of the list on the left."""

    name: str
    title: str
    screen: Screen


def _led(document: Callable[[Session], D], screen: Callable[[D, int], Iterable[RenderableType]]) -> Screen:
    """Join the two sides of a view: the answer for a run, and its screen below the verdict."""
    return lambda session, width: led(run_answer(session), screen(document(session), width))


VIEWS = (
    View("summary", "Summary", lambda session, width: explain_screen(explain_document(session), width, verbose=True)),
    View("breaks", "Breaks", _led(breaks_document, partial(breaks_screen, all_paths=True))),
    View("recompiles", "Recompiles", _led(recompiles_document, partial(recompiles_screen, all_of_it=True))),
    View("graphs", "Graphs", _led(graphs_document, partial(graphs_screen, all_of_it=True))),
    View("guards", "Guards", _led(guards_document, partial(guards_screen, view="tree", all_of_it=True))),
    View("shapes", "Shapes", _led(shapes_document, partial(shapes_screen, everything=True))),
    View("fusion", "Fusion", _led(fusion_document, partial(fusion_screen, all_of_it=True))),
    View("kernels", "Kernels", _led(kernels_document, partial(kernels_tables, all_of_it=True))),
    View("time", "Time", lambda session, width: compile_time_screen(compile_document(session), width, all_of_it=True)),
)


def lines_of(view: View, session: Session, width: int) -> list[Text]:
    """Draw a view for a width; an error of the view is its text."""
    width = max(_NARROWEST, width)
    # Forced, since a text buffer is no terminal, for which rich leaves out colors.
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard", emoji=False)
    try:
        text = str(drawn(view.screen(session, width), console))
    except CtraceError as error:
        text = f"{error.what}\n  {error.todo}"
    return [Text.from_ansi(line) for line in text.rstrip("\n").split("\n")]
