"""Screen of a tuned kernel: the best configuration of each size class, then all of them."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from ctrace.inspector.features.workshop.kernel_packages.package_configurations import best_of, own_of
from ctrace.inspector.features.workshop.kernel_packages.package_model import (
    KernelConfiguration,
    PackageTuning,
    SizeClass,
    TriedConfiguration,
    TunedConfigurations,
)
from ctrace.reports import format as fmt
from ctrace.reports.terminal.columns import columned
from ctrace.reports.terminal.widgets import hanging, section

_MOST = 12
"""How many configurations of a size class a screen lists."""


def tune_screen(
    folder: str, found: PackageTuning, width: int, notes: tuple[str, ...] = (), *, all_of_it: bool = False
) -> Iterator[RenderableType]:
    """Show what was tried, and what it costs or takes."""
    for kernel in found.kernels:
        yield _headline(folder, found, kernel)
        for each in kernel.classes:
            yield section(f"{each.name}: {fmt.one_line(each.sizes, 100)}")
            rows = _ordered(each)
            shown = rows if all_of_it else rows[:_MOST]
            yield columned(width, _columns(found), [_row(one, found, each, kernel) for one in shown])
            if len(rows) > len(shown):
                yield Text(f"  and {len(rows) - len(shown)} more: see --all", style="dim")
    yield from (hanging(each) for each in notes)


def _headline(folder: str, found: PackageTuning, kernel: TunedConfigurations) -> Text:
    tried = [one for each in kernel.classes for one in each.tried]
    failed = sum(bool(one.failed) for one in tried)
    name = fmt.one_line(f"{kernel.kernel} of {folder}", 200)
    if not found.is_timed:
        answer = f"{fmt.count(len(tried) - failed, 'configuration')} compiled for {found.device}; times not measured"
    else:
        answer = "; ".join(_gain(kernel, each) for each in kernel.classes)
    left = f"; {failed} failed" if failed else ""
    return Text.assemble(
        (f"{answer}{left}", "bold"), f"\n   {name}, on {found.device}" if found.is_timed else f"\n   {name}"
    )


def _gain(kernel: TunedConfigurations, each: SizeClass) -> str:
    best, own = best_of(each), own_of(kernel, each)
    if best is None or best.seconds is None:
        return f"{each.name}: no configuration is right"
    if own is None or own.seconds is None:
        return f"{each.name}: {best.seconds * 1e6:.3g} us"
    if best is own:
        return f"{each.name}: {own.seconds * 1e6:.3g} us, nothing is measurably faster"
    return f"{each.name}: {own.seconds * 1e6:.3g} -> {best.seconds * 1e6:.3g} us"


def _ordered(each: SizeClass) -> list[TriedConfiguration]:
    """Return the fastest first; without times, those that spill least and fit most."""

    def key(one: TriedConfiguration) -> tuple[bool, float, int, float]:
        seconds = one.seconds if one.seconds is not None else float("inf")
        return bool(one.failed), seconds, one.spills or 0, -(one.occupancy or 0.0)

    return sorted(each.tried, key=key)


def _columns(found: PackageTuning) -> tuple[str, ...]:
    times = (">us",) if found.is_timed else ()
    return ("configuration", *times, ">registers", ">spills", ">shared", ">occupancy", "limited by")


def _row(
    one: TriedConfiguration, found: PackageTuning, each: SizeClass, kernel: TunedConfigurations
) -> tuple[str, ...]:
    del each
    own = ", now" if kernel.current is not None and one.configuration.key == kernel.current.key else ""
    name = f"{configuration_text(one.configuration)}{own}"
    if one.failed:
        blank = ("-",) * (5 if found.is_timed else 4)
        return (name, *blank, fmt.one_line(one.failed, 60))
    cells = [name]
    if found.is_timed:
        cells.append("-" if one.seconds is None else f"{one.seconds * 1e6:.2f}")
    cells += [_number(one.registers), _number(one.spills)]
    cells.append("?" if one.shared is None else fmt.memory(one.shared))
    cells.append("?" if one.occupancy is None else f"{one.occupancy:.0%}")
    return (*cells, one.limited_by)


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def configuration_text(each: KernelConfiguration) -> str:
    """Return a configuration for a table, such as `4w 1s XBLOCK=256`."""
    blocks = "".join(f" {name}={size}" for name, size in each.blocks.items())
    return f"{each.warps}w {each.stages}s{blocks}"
