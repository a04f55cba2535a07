"""Group the launches that share one dumped file."""

import ast
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.kernels import Kernel, Launch
from ctrace.reports.dump.launches import Site, Wrapper
from ctrace.reports.dump.pieces import entry
from ctrace.reports.dump.values import Tensor, Value


class Group(Struct, frozen=True):
    """All launches of one kernel, or all calls of one library function with arguments of the same form."""

    site: Site
    """The first launch."""
    kernel: Kernel | None = None
    """The kernel's record; None if the run has no kernel of that name."""
    launch: Launch | None = None
    launches: int = 1


def groups(wrapper: Wrapper, kernels: Iterable[Kernel]) -> tuple[Group, ...]:
    """Group the launches that share one file, in the order of their first launch."""
    by_name = {kernel.name: kernel for kernel in kernels}
    seen: dict[str, int] = {}
    found: dict[tuple[str, str], Group] = {}
    for site in wrapper.sites:
        kernel, at = by_name.get(site.name), seen.get(site.name, 0)
        seen[site.name] = at + 1
        # The wrapper and the log have a kernel's launches in the same order.
        launch = kernel.launches[at] if kernel and at < len(kernel.launches) else None
        key = site.name, "" if site.kernel else _form(site, wrapper.below)
        first = found.get(key)
        found[key] = replace(first, launches=first.launches + 1) if first else Group(site, kernel, launch)
    return tuple(found.values())


def _form(site: Site, below: Mapping[str, int]) -> str:
    """Write a call with numbers instead of names, so that calls of the same form compare equal."""
    order = {name: f"_{at}" for at, name in enumerate(site.arguments)}
    text = ast.parse(ast.unparse(site.call), mode="eval")
    for node in ast.walk(text):
        if isinstance(node, ast.Name):
            node.id = order.get(node.id, node.id)
    return f"{ast.unparse(text)} {[_nameless(value, below) for value in site.arguments.values()]}"


def _nameless(value: Value, below: Mapping[str, int]) -> str:
    limit = {"": below[value.storage]} if isinstance(value, Tensor) and value.storage in below else {}
    return entry(replace(value, storage="") if isinstance(value, Tensor) else value, limit)
