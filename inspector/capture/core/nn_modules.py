"""Which `nn.Module` of the user computes each node of a graph.

Source: `nn_module_stack` in a node's `meta`, which Dynamo fills (2.13, _dynamo/output_graph.py) and AOTAutograd keeps;
for nodes of the backward, `fwd_nn_module_stack`, that of the forward node (2.13,
_functorch/_aot_autograd/utils.py:`copy_fwd_metadata_to_bw_nodes`).
"""

import re
from typing import Any

from ctrace.inspector.facts.events.tracing import ModuleNodes

# A node of the backward has the second only.
_STACKS = ("nn_module_stack", "fwd_nn_module_stack")
_ROOT = re.compile(r"L\['\w+'\]\.?")
"""The variable that holds the compiled module, such as `L['self']`."""


def modules_of(graph: Any) -> tuple[ModuleNodes, ...]:
    """Return the path of each module, such as `layers.0.norm1`, its class and its nodes.

    The innermost module of a node counts. The compiled module itself has an empty path.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    for node in graph.nodes:
        stack = next((node.meta[name] for name in _STACKS if node.meta.get(name)), None)
        if stack and node.op not in ("placeholder", "output"):
            path, kind = list(stack.values())[-1]
            name = kind if isinstance(kind, str) else kind.__name__
            path = _ROOT.sub("", path, count=1)
            _kind, nodes = found.setdefault(path, (name.rpartition(".")[2], []))
            nodes.append(node.name)
    return tuple(ModuleNodes(path, kind, tuple(nodes)) for path, (kind, nodes) in found.items())
