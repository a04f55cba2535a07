"""Screen of the Triton kernels that the user wrote."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.user_kernels import Parameter, ParameterKind, UserKernel
from ctrace.inspector.findings.kernels.user_kernels_view import (
    EPILOGUES,
    UserKernelCalls,
    calls,
    grid_depends_on_config,
    notes,
    specialized,
)
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import MOST, fix, hanging, item, more, section

# Chosen, as is the next one: a fact about a kernel is a line or two.
_FEW = 4
_LONG = 300


def user_kernels_section(session: Session, *, most: int | None = MOST) -> Iterator[RenderableType]:
    """Show each user-written kernel and how torch handles it. `most`: how many, None for all."""
    found = calls(session)
    if not found:
        return
    yield section("Your Triton kernels")
    shown = found if most is None else found[:most]
    for number, each in enumerate(shown, 1):
        yield item(_one(number, each, session.environment.cwd))
    yield from more(len(found), "call of a kernel", most=len(shown), several="calls of kernels")


def _one(number: int, each: UserKernelCalls, cwd: str) -> RenderableType:
    kernel = each.kernel
    lines: list[RenderableType] = [_head(number, each, cwd), _facts(_rows(kernel, cwd))]
    for note in notes(kernel):
        lines.append(hanging(note.text))
        if note.todo:
            lines.append(fix(note.todo))
    return Group(*lines)


def _head(number: int, each: UserKernelCalls, cwd: str) -> Text:
    kernel = each.kernel
    times = fmt.repeated(each.number, " · ", " calls")
    name = fmt.one_line(kernel.kernel, 60)
    called = fmt.listed((_shortened(line, cwd) for line in kernel.lines), _FEW) or "a line that torch does not record"
    return Text.assemble(
        f"{number}. ",
        (name, "bold"),
        f"  {fmt.place(kernel.file, kernel.line, cwd)}",
        (f"\n   called at {called} · graph {kernel.graph} {kernel.stage}{times}", "dim"),
    )


def _shortened(line: str, cwd: str) -> str:
    file, _, number = line.rpartition(":")
    return fmt.place(file, int(number) if number.isdecimal() else None, cwd)


def _facts(rows: Iterable[tuple[str, str]]) -> Table:
    made = Table(box=None, padding=(0, 2, 0, 0), show_header=False, show_edge=False)
    made.add_column(width=11, style="dim", justify="left")
    made.add_column(overflow="fold")
    for title, text in rows:
        if text:
            made.add_row(f"   {title}", fmt.one_line(text, _LONG))
    return made


def _rows(kernel: UserKernel, cwd: str) -> Iterator[tuple[str, str]]:
    yield "writes", _written(kernel)
    yield "reads", _read(kernel)
    yield "fixed", ", ".join(f"{each.name} = {each.value}" for each in specialized(kernel))
    yield "numbers", ", ".join(f"{each.name} = {each.value}" for each in kernel.parameters if _is_free(each))
    yield "grid", _grids(kernel)
    yield "configs", _configs(kernel)
    yield "tuning", _tuning(kernel)
    yield "epilogue", EPILOGUES[kernel.epilogue] if kernel.epilogue else "not known: no code was generated"
    yield "op", _op(kernel, cwd)
    yield "FLOPs", _flops(kernel)
    yield "code", kernel.name or "not generated"


def _is_free(parameter: Parameter) -> bool:
    return parameter.kind is ParameterKind.NUMBER and not parameter.fixed


def _written(kernel: UserKernel) -> str:
    if kernel.assumed is None:
        return "not known: torch does not report it"
    names = ", ".join(_tensor(each) for each in kernel.tensors if each.written) or "nothing that torch can see"
    if kernel.assumed:
        return f"{names} (assumed, not known)"
    return names


def _read(kernel: UserKernel) -> str:
    if all(each.read is None for each in kernel.tensors):
        if kernel.assumed:
            return "not known"
        return "not reported by this torch version"
    return ", ".join(_tensor(each) for each in kernel.tensors if each.read) or "nothing that torch can see"


def _tensor(parameter: Parameter) -> str:
    return f"{parameter.name} {parameter.dtype}[{', '.join(parameter.shape)}]"


def _grids(kernel: UserKernel) -> str:
    grids = dict.fromkeys(f"({', '.join(grid)})" for grid in kernel.grids)
    listed = fmt.listed(grids, _FEW)
    if grid_depends_on_config(kernel):
        return f"{listed}, by configuration"
    return listed


def _configs(kernel: UserKernel) -> str:
    if not kernel.configs:
        return ""
    one = (", ".join(f"{name}={value}" for name, value in each.items()) for each in kernel.configs)
    return f"{len(kernel.configs)}: {'; '.join(list(one)[:_FEW])}{'; …' if len(kernel.configs) > _FEW else ''}"


def _tuning(kernel: UserKernel) -> str:
    if not kernel.autotuned:
        return ""
    lists = {"key": kernel.key, "restores": kernel.restored, "zeroes": kernel.zeroed}
    parts = [f"{word} {', '.join(names)}" for word, names in lists.items() if names]
    if not kernel.key:
        parts.insert(0, "no key")
    return f"triton.autotune: {'; '.join(parts)}"


def _op(kernel: UserKernel, cwd: str) -> str:
    op = kernel.op
    if op is None:
        return ""
    fallbacks = fmt.framed("own kernel for ", ", ".join(op.fallbacks)) or "no kernel for other devices"
    gradient = "has a gradient" if op.autograd else "no gradient"
    return f"{op.name} ({fmt.place(op.file, op.line, cwd)}): {fallbacks}; {gradient}"


def _flops(kernel: UserKernel) -> str:
    if kernel.op is not None and kernel.op.flops:
        return f"a formula is registered for {kernel.op.name}"
    if kernel.flops:
        return "a formula is registered for the kernel"
    return "not counted: no formula is registered (register_flop_formula)"
