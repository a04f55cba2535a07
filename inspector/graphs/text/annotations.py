"""Read annotations such as `f32[2, s77][s77, 1]cpu` (fx/graph.py, `_tensor_annotation`, 2.11 to 2.13)."""

import re
from functools import lru_cache

from ctrace.inspector.graphs.text.fx import TensorType
from ctrace.inspector.graphs.text.scan import pieces

_TENSOR = re.compile(
    r"(?P<dtype>[A-Za-z]\w*)\[(?P<sizes>[^\[\]]*)\](?:\[(?P<strides>[^\[\]]*)\])?(?P<device>(?:\w+(?::\d+)?)?)"
)
_WRAPPED = re.compile(rf"(?P<class>\w+)\((?P<tensor>{_TENSOR.pattern})(?:, .*)?\)")
_SYMBOL = re.compile(r"Sym\((?P<expression>.*)\)")


@lru_cache(maxsize=20_000)
def annotation(text: str) -> tuple[TensorType | None, str]:
    """Give the tensor's type, or a number's expression; neither for a text of another form."""
    if match := _TENSOR.fullmatch(text):
        return _tensor(match, ""), ""
    if match := _SYMBOL.fullmatch(text):
        return None, match["expression"]
    if match := _WRAPPED.fullmatch(text):
        return _tensor(match, match["class"]), ""
    return None, ""


def _tensor(match: re.Match[str], wrapper: str) -> TensorType:
    strides = match["strides"]
    return TensorType(
        dtype=match["dtype"],
        sizes=_sizes(match["sizes"]),
        strides=None if strides is None else _sizes(strides),
        device=match["device"],
        wrapper=wrapper,
    )


def _sizes(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if "(" not in text and text else pieces(text)
