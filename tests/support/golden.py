"""Draw screens, and compare them with those in tests/golden/; `CTRACE_UPDATE_GOLDEN=1 pytest` writes them."""

import io
import os
from collections.abc import Iterable

from rich.console import Console, RenderableType

from ctrace.reports.terminal.widgets import render
from tests.support.places import TESTS

_FOLDER = TESTS / "golden"
WIDTHS = (80, 140)


def drawn(screen: Iterable[RenderableType], width: int, *, colors: bool = False) -> str:
    """Print a screen as on a terminal of some width."""
    text = io.StringIO()
    render(screen, Console(file=text, width=width, force_terminal=colors, no_color=False, legacy_windows=False))
    return text.getvalue()


def assert_golden(name: str, text: str) -> None:
    """Fail and show both texts unless `text` equals tests/golden/<name>."""
    path = _FOLDER / name
    if os.environ.get("CTRACE_UPDATE_GOLDEN"):
        assert not os.environ.get("CI"), "CI must not rewrite goldens: nobody would read the changes"
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; look at both, then CTRACE_UPDATE_GOLDEN=1"
