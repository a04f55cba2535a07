"""Screen of an operator for a user's kernel: what it is, what was checked, which limits apply."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.workshop.triton_ops.triton_op_model import OperatorCheck, OperatorLimit, WrapResult
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import hanging, marked, section

_ORIGINS = {
    "triton": "read by torch from Triton's intermediate code of a launch",
    "source": "read from the source: pointers that flow into tl.store or an atomic operation",
}
_CPU = {
    "branch": "the function's own branch",
    "interpreter": "Triton's interpreter, which is slow",
}


def wrap_screen(result: WrapResult, width: int) -> Iterator[RenderableType]:
    """Show what was written, and whether it holds."""
    made = result.wrapped
    failed = [each for each in result.checks if each.passed is False]
    unknown = [each for each in result.checks if each.passed is None]
    head, style = ("WRAPPED", "bold green") if not failed else ("WRAPPED, WRONG", "bold red")
    if not failed and (unknown or not result.checks):
        head, style = f"WRAPPED, NOT {'ALL ' if result.checks else ''}CHECKED", "bold yellow"
    place = fmt.one_line(f"{made.file}:{made.line}")
    yield Text.assemble(
        (head, style), "  ", (fmt.one_line(made.name), "bold"), f"  {fmt.one_line(made.kernel)}, {place}"
    )
    yield _fact("writes to", f"{', '.join(made.written) or 'nothing'} in the kernel, {_mutated(made.mutates)}")
    yield _fact("", _ORIGINS[made.written_source])
    yield _fact("fake", made.fake)
    yield _fact("on a CPU", _CPU[made.cpu])
    flops = "a stub to fill in: the kernel loops or reduces" if made.flops is None else f"{made.flops} per element"
    yield _fact("FLOPs", flops)
    yield _fact("gradient", "none: add register_autograd if the operator is trained through")
    yield section("Checks")
    for each in result.checks:
        yield from _check(each)
    if not result.checks:
        yield Text("  none: the model was not run")
    applying = [each for each in result.limits if each.applies]
    yield section("Limits of torch: those with ! apply" if applying else "Limits of torch: none applies")
    for limit in result.limits:
        yield _limit(limit)
    yield from (hanging(each, "yellow") for each in made.notes)
    yield section("In your code")
    yield Text(f"  - {fmt.one_line(made.calls[0], 300)}", style="red")
    yield Text(f"  + {fmt.one_line(made.calls[1], 300)}", style="green")


def _fact(name: str, text: str) -> Text:
    return Text.assemble((f"  {name:<10}", "dim"), fmt.one_line(text, 300))


def _mutated(names: tuple[str, ...]) -> str:
    return f"so the operator mutates {', '.join(names)}" if names else "which the operator allocates"


def _check(check: OperatorCheck) -> Iterator[RenderableType]:
    signs = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
    sign, style = signs[check.passed]
    detail = f": {fmt.one_line(check.detail, 300)}" if check.detail else ""
    yield marked(sign, style, f"{fmt.one_line(check.what, 200)}{detail}")


def _limit(limit: OperatorLimit) -> RenderableType:
    return marked(*(("!", "yellow") if limit.applies else ("·", "dim")), fmt.one_line(limit.what, 300))
