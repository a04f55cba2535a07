"""Describe the ways that Inductor could time: the choices of one operation (2.11 to 2.13, _inductor/ir.py `ChoiceCaller`)."""

from typing import Any

_LANGUAGES = {
    "TritonTemplateCaller": "triton",
    "ExternKernelCaller": "external",
    "SubgraphChoiceCaller": "graph",
    "CUTLASSTemplateCaller": "cutlass",
}
_SHOWN = 3


def candidate(choice: Any) -> dict[str, Any]:
    """Describe one choice for the log."""
    return {
        "name": choice.name,
        "language": _LANGUAGES.get(type(choice).__name__, ""),
        "configuration": choice.description,
    }


def taken_of(choices: list[Any]) -> Any:
    """Give the choice that torch itself takes where it has no times: a library's, else the first."""
    return next((choice for choice in choices if type(choice).__name__ == "ExternKernelCaller"), choices[0])


def subject_of(name: str, choice: Any) -> str:
    """Name an operation by the shapes that it is given and their type: `mm(128x64, 64x256) bfloat16`."""
    nodes = choice.input_nodes
    shapes = ["x".join(map(_factor, node.get_size())) for node in nodes[:_SHOWN]]
    more = ["..."] if len(nodes) > _SHOWN else []
    return f"{name}({', '.join(shapes + more)}) {str(nodes[0].get_dtype()).removeprefix('torch.')}"


def _factor(size: Any) -> str:
    text = str(size)
    return text if text.isalnum() else f"({text})"
