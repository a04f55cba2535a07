"""What the new code of a function does, as Python; as bytecode where that cannot be proven."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from ctrace.inspector.bytecode.decompile.reconstruct import Refused, Source, reconstruct
from ctrace.inspector.bytecode.outline import outline
from ctrace.inspector.bytecode.view import Compiled, explained
from ctrace.inspector.model.session import Session
from ctrace.reports import format as fmt
from ctrace.reports.terminal.bytecode.diff import Layout, diff_lines, title

_THEME = "ansi_dark"
_INDENT = 2


def sources(session: Session, chosen: Iterable[Compiled], width: int) -> Iterator[RenderableType]:
    """Show the source of each new code, and how it was checked, which is the same for all."""
    checked: dict[str, None] = {}
    for compiled in chosen:
        each = explained(session, compiled)
        yield title(session, each)
        yield Text(fmt.one_line("; ".join(outline(session, each)), 600), style="dim")
        match reconstruct(each.codes.after):
            case Source(text=text, how_checked=how):
                checked[how] = None
                yield _python(text, width - _INDENT)
            case Refused(why):
                yield Text(f"No source: {fmt.one_line(why)} Its bytecode:", style="yellow")
                lines = session.listings.get(each.codes.before.file, "").splitlines()
                yield from diff_lines(each, lines, Layout(width, beside=False, all_of_it=False, line=None))
    for how in checked:
        yield Text(f"\nHow it was checked: {how}", style="dim")


def _python(text: str, width: int) -> RenderableType:
    lines = map(fmt.plain, fmt.without_unique_part(text).splitlines())
    shown = "\n".join(part for line in lines for part in _broken(line, width))
    code = Syntax(shown, "python", theme=_THEME, background_color="default", word_wrap=True)
    return Padding(code, (0, 0, 0, _INDENT))


def _broken(line: str, width: int) -> Iterator[str]:
    """Break a long line behind commas, where it stays Python."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > width:
        end = line.rfind(", ", len(indent), width)
        if end < 0 or line.lstrip().startswith("#"):
            break
        yield line[: end + 1]
        line = indent + line[end + 2 :]
    yield line
