"""Screen of `ctrace kernels eject`: the packages, and the kernels that it refused."""

import shlex
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from ctrace.reports import format as fmt
from ctrace.reports.json.packages.ejecting_json import Ejected
from ctrace.reports.terminal.widgets import fix, hanging, item, section


def ejected_screen(found: Sequence[Ejected], width: int, model: str = "") -> Iterator[RenderableType]:
    """Show how many kernels were ejected, each package with its op, and each refusal with its reason.

    `model` is what the kernels come from, as `ctrace kernels apply` takes it; empty: not known.
    """
    written = list({each.written.folder: each.written for each in found if each.written is not None}.values())
    refused = [each for each in found if each.written is None]
    if not found:
        yield Text("No kernel ejected: the run has no generated kernel", "bold yellow")
        yield fix("name a model that torch.compile compiles: --of model.py")
        return
    total = f"{len(found) - len(refused)} of {fmt.count(len(found), 'kernel')} ejected"
    yield Text(f"{total}, {fmt.count(len(written), 'package')} written", "bold")
    for each in written:
        sizes = ", ".join(size.name for size in each.package.sizes)
        taken = fmt.count(len(each.package.region.inputs), "input")
        stored = fmt.count(len(each.package.region.outputs), "output")
        yield item(Text(fmt.one_line(f"{each.folder}/", width - 4)))
        kernels = f"{fmt.count(len(each.package.parts), 'kernel')}, " if len(each.package.parts) > 1 else ""
        yield hanging(f"{kernels}{taken}, {stored}, {f'dynamic sizes {sizes}' if sizes else 'fixed sizes'}")
    if written:
        tested = written[0].folder if len(written) == 1 else written[0].folder.parent
        files = {f"kernel.{'py' if each.package.cpp is None else 'cpp'}" for each in written}
        package = shlex.quote(str(written[0].folder)) if len(written) == 1 else "FOLDER"
        target = shlex.quote(model) if model else "TARGET"
        yield fix(f"python -m pytest {fmt.plain(shlex.quote(str(tested)))}")
        yield fix(f"edit {fmt.listed(sorted(files), 2)}; ctrace kernels edit {fmt.plain(package)} checks each save")
        yield fix(f"ctrace kernels apply {fmt.plain(package)} {fmt.plain(target)} puts it into the model")
    if refused:
        yield section("Not ejected")
    for one in refused:
        yield item(Text(fmt.one_line(f"{one.kernel.name}  ({one.kernel.graph}, {one.kernel.stage})", width - 4)))
        yield hanging(f"{one.why}; {one.instead}")
