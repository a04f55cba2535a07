"""Code on a screen: coloured on a terminal, and no line of it cut or folded."""

from rich.syntax import Syntax

from ctrace.reports.terminal.parts import Verbatim

_THEME = "ansi_dark"


def highlighted(text: str, lexer: str) -> Verbatim:
    """Highlight code, by the name that Pygments has for its language."""
    return Verbatim(Syntax(text, lexer, theme=_THEME, background_color="default").highlight(text))
