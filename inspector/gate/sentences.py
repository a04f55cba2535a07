"""How a gate says things in one line."""

from ctrace.inspector.gate.model import SiteKey, SiteKind
from ctrace.inspector.gate.policy.model import Count

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


def new_site(key: SiteKey) -> str:
    """Say `+1 GB0170 mask.py::Mask.forward`."""
    return f"+1 {named(key)}"


def gone_site(key: SiteKey) -> str:
    """Say `-1 GB0170 mask.py::Mask.forward`."""
    return f"-1 {named(key)}"


def named(key: SiteKey) -> str:
    """Name a site: what it is, and where."""
    return f"{_what(key)} {key.place}"


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
