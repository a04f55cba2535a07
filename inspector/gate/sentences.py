"""How a gate says things in one line."""

from pathlib import PurePosixPath

from ctrace.inspector.findings import Cost
from ctrace.inspector.gate.model import Count, Known, Site, SiteKey, SiteKind

NAMES = {
    Count.BREAKS: "graph breaks",
    Count.LIBRARY_BREAKS: "graph breaks in libraries",
    Count.TORCH_BREAKS: "graph breaks in torch",
    Count.SKIPPED: "functions left in eager",
    Count.RECOMPILES: "recompiles after warm-up",
    Count.GRAPHS: "graphs",
    Count.EAGER_OPS: "ops left in eager",
    Count.LIMIT_HITS: "functions at the recompile limit",
    Count.KERNELS: "kernels",
    Count.SPILLS: "spilled registers",
    Count.MISSED_BYTES: "bytes of missed fusions",
}


def new_site(site: Site, graphs: int | None) -> str:
    """Say `+1 GB0170 mask.py::Mask.forward `if is_pad.any():` splits 2 graphs into 3, 14 ops now eager`."""
    return f"+1 {with_costs(site, graphs)}"


def with_costs(site: Site, graphs: int | None) -> str:
    """Name a site and say what it costs, of a job with so many graphs."""
    return f"{named(site.key)}{_costs(site.cost, graphs)}"


def gone_site(known: Known) -> str:
    """Say `-1 GB0170 mask.py::Mask.forward `if is_pad.any():``."""
    return f"-1 {named(known.key)}"


def more_times(site: Site, was: int) -> str:
    """Say that a known site happens more often."""
    return f"{named(site.key)} happens {site.times} times, not {was}"


def named(key: SiteKey) -> str:
    """Name a site: what, where, and its source."""
    text = f" `{key.text}`" if key.text else ""
    return f"{_what(key)} {short_place(key.place)}{text}"


def short_place(place: str) -> str:
    """Shorten `models/mask.py::Mask.forward` to `mask.py::Mask.forward`."""
    file, _, name = place.partition("::")
    return f"{PurePosixPath(file).name}::{name}" if file else name


def _what(key: SiteKey) -> str:
    causes = "+".join(key.causes)
    match key.kind:
        case SiteKind.BREAK:
            return causes or "break"
        case SiteKind.DISABLED:
            return f"disabled ({causes})"
        case SiteKind.SKIP:
            return f"left in eager ({causes})"
        case SiteKind.RECOMPILE:
            return f"recompile ({causes})"
        case SiteKind.DANGER:
            return f"other results ({causes})"


def _costs(cost: Cost, graphs: int | None) -> str:
    told = []
    if cost.graphs and graphs is not None and graphs > cost.graphs:
        before = graphs - cost.graphs
        told.append(f"splits {before} graph{'s' if before > 1 else ''} into {graphs}")
    if cost.ops:
        told.append(f"{cost.ops} op{'s' if cost.ops > 1 else ''} now eager")
    return f" {', '.join(told)}" if told else ""
