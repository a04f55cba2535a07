"""A pane of lines that draws only those in view, so that a million lines cost no more than fifty."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

_LINKED = Style.parse("on #1c3a5e")
_LINKED_LIGHT = Style.parse("on #cfe4fb")
_PICKED = Style.parse("bold reverse")
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
            self.scroll_to(y=max(0, self.cursor - height // 3), animate=False)
