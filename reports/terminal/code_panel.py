"""Code on a screen: colored on a terminal, no line cut or folded."""

from ctrace.reports.terminal.widgets import Verbatim

_THEME = "ansi_dark"


def highlighted(text: str, lexer: str) -> Verbatim:
    """Highlight code; `lexer` is Pygments' name for the language."""
    from rich.syntax import Syntax  # with Pygments, which is slow to import

    return Verbatim(Syntax(text, lexer, theme=_THEME, background_color="default").highlight(text))
