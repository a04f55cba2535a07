"""Screen of `ctrace kernels --dump`: what it wrote, and what it left out."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.target_view import target_of
from ctrace.reports import format as fmt
from ctrace.reports.dump.dumped import Dumped, DumpedPart
from ctrace.reports.terminal.target_screen import emitted_for
from ctrace.reports.terminal.widgets import MOST, fix, hanging, item, more, section


def dump_screen(session: Session, dumped: Dumped) -> Iterator[RenderableType]:
    """Show the folder, the target GPU, the files of each graph part, what is left out and why, and how to run them."""
    where = fmt.plain(str(dumped.folder))
    yield Text.assemble((where, "bold"), f"  {fmt.count(len(dumped.files), 'file')} written")
    yield from emitted_for(session)
    for part in dumped.parts[:MOST]:
        yield item(Text(_part(part)))
    yield from more(len(dumped.parts), "graph part", "index.json")
    todo = _todo(dumped)
    yield fix(f"{todo}  (on such a GPU)" if todo and target_of(session) else todo)
    left = dumped.left_out
    if left:
        yield section("Not written")
    for name, why in left[:MOST]:
        yield item(Text(fmt.one_line(name, 70)))
        yield hanging(why)
    yield from more(len(left), "of them", "index.json")


def _part(part: DumpedPart) -> str:
    files = sum(1 for each in part.kernels if each.file)
    stages = sum(len(each.code) for each in part.kernels)
    compared = "compared with eager" if not part.compared else f"not compared with eager: {part.compared}"
    compiled = f", {fmt.count(stages, 'file')} of compiled code" if stages else ""
    contents = f"{fmt.count(files, 'kernel')}{compiled}; wrapper, {compared}" if part.wrapper else "nothing"
    return fmt.one_line(f"{part.folder}/  graph {part.graph}, {part.stage}: {contents}")


def _todo(dumped: Dumped) -> str:
    first = next((part for part in dumped.parts if part.wrapper), None)
    if first:
        return f"python {dumped.folder / first.folder / 'wrapper.py'}"
    return ""
