"""Resources of compiled kernels as text."""

from ctrace.inspector.facts.built import Built
from ctrace.inspector.findings.kernels.built_view import Resources
from ctrace.inspector.knowledge.words.counting import named, plural
from ctrace.reports import format as fmt

COMMENTS = {"llir": ";"}
"""Comment prefix of a stage of a kernel's code, if it is not `//`."""


def configuration_text(built: Built, *, short: bool = False, unused: bool = False) -> str:
    """Write `4 warps 1 stage XBLOCK=512`, or in short `4w 1s XBLOCK=512`."""
    sizes = " ".join(f"{fmt.one_line(name, 20)}={size}" for name, size in built.blocks.items())
    warps = f"{built.warps}w" if short else fmt.count(built.warps, "warp")
    stages = f"{built.stages}s" if short else fmt.count(built.stages, "stage")
    limit = ""
    if built.register_limit is not None:
        limit = f"≤{built.register_limit}r" if short else f"at most {fmt.count(built.register_limit, 'register')}"
    return " ".join(part for part in ("unused:" if unused else "", warps, stages, sizes, limit) if part)


def resources_text(each: Resources) -> str:
    """Write `4 warps 1 stage XBLOCK=1: 32 registers, 0 spills, 16 blocks per SM (100% occupancy)`."""
    built, occupancy = each.built, each.occupancy
    shared = "shared memory not known" if built.shared is None else f"{fmt.memory(built.shared)} of shared memory"
    parts = [_counted(built.registers, "register"), _counted(built.spills, "spill"), shared]
    if occupancy is not None:
        parts.append(f"{fmt.count(occupancy.blocks, 'block')} per SM ({occupancy.share:.0%} occupancy)")
    return f"{configuration_text(built, unused=each.unused)}: {', '.join(part for part in parts if part)}"


def _counted(number: int | None, noun: str) -> str:
    return f"{plural(noun)} not known" if number is None else f"{number} {named(number, noun)}"
