"""The user's line and `nn.Module` of a graph's node.

Source of the module: `nn_module_stack` in a node's `meta`, which Dynamo fills (2.13, _dynamo/output_graph.py) and
AOTAutograd keeps; for nodes of the backward, `fwd_nn_module_stack`, that of the forward node (2.13,
_functorch/_aot_autograd/utils.py:`copy_fwd_metadata_to_bw_nodes`).
"""

import linecache
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.facts.bytecode_facts import ModuleNodes
from ctrace.inspector.source.stacks import frames_in, user_lines

# A node of the backward has the second only.
_STACKS = ("nn_module_stack", "fwd_nn_module_stack")
_ROOT = re.compile(r"L\['\w+'\]\.?")
"""The variable that holds the compiled module, such as `L['self']`."""
REPLACED = "ctrace_replaced"
"""The key of a node's meta that has the stack trace of what a pattern of Inductor replaced by the node."""


def stack_of(node: Any) -> str:
    """Return a node's stack trace, else that of what it replaces; empty if there is none."""
    # A node that a pattern put there has no line of its own.
    return str(node.meta.get("stack_trace") or node.meta.get(REPLACED) or "")


def stacks_of(operation: Any) -> Iterator[str]:
    """Yield the stack traces behind an operation of Inductor, which an `ir.Operation` keeps as its origins."""
    yield from operation.get_stack_traces()
    yield from (stack for origin in operation.origins if (stack := origin.meta.get(REPLACED)))


def line_of(node: Any) -> str | None:
    """Return the innermost line of the user that a node comes from, as `file:line`; None: not known."""
    stack = stack_of(node)
    if stack:
        found = user_lines([stack], _prefixes())
    else:
        found = ()
    if not found:
        return None
    return str(found[-1])


def place_of(node: Any) -> tuple[str | None, int | None, str | None]:
    """Return file, line and function of the innermost line of the user that a node comes from; None: not known."""
    where = None
    if node is not None:
        where = line_of(node)
    if where is None:
        return None, None, None
    # From the right: a path may contain a colon, too.
    file, _, line = where.rpartition(":")
    # The function is that of the same frame: a stack may pass a line twice, and the last is the innermost.
    frames = [each for each in frames_in(stack_of(node)) if each.file == file and each.line == int(line)]
    return file, int(line), frames[-1].function if frames else None


def source_of(file: str | None, line: int | None) -> str:
    """Return a line of code; empty if it is not known."""
    if file is not None and line is not None:
        return linecache.getline(file, line).strip()
    return ""


@cache
def _prefixes() -> dict[str, str]:
    """Return the folders of libraries and of torch, whose frames are not the user's."""
    import torch

    return {**library_prefixes(), str(Path(torch.__file__).parent): "torch"}


def modules_of(graph: Any) -> tuple[ModuleNodes, ...]:
    """Return the path of each module, such as `layers.0.norm1`, its class and its nodes.

    The innermost module of a node counts. The compiled module itself has an empty path.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    for node in graph.nodes:
        stack = next((node.meta[name] for name in _STACKS if node.meta.get(name)), None)
        # Inputs and outputs belong to the graph, and no module computes them.
        if stack and node.op not in ("placeholder", "output"):
            # The last entry is the innermost module.
            path, kind = list(stack.values())[-1]
            # Torch keeps the class, or its full name in a graph that was exported.
            if isinstance(kind, str):
                name = kind
            else:
                name = kind.__name__
            path = _ROOT.sub("", path, count=1)
            _kind, nodes = found.setdefault(path, (name.rpartition(".")[2], []))
            nodes.append(node.name)
    return tuple(ModuleNodes(path, kind, tuple(nodes)) for path, (kind, nodes) in found.items())
