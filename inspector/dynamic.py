"""Which sizes of its tensors a compilation takes as they come, read from its guards."""

import re

from ctrace.inspector.raw import Raw

_CHECKED = re.compile(
    r"TENSOR_MATCH: check_tensor\((?P<source>.*?), \w+, DispatchKeySet\(.*?size=\[(?P<sizes>[^\]]*)\]"
)

_NUMBER = re.compile(r"\s*\d{1,19}\s*")
Sizes = tuple[int | None, ...]
"""The sizes of a tensor; None for one that may vary."""


def dynamic_sizes(raw: Raw, compile_id: str) -> dict[str, Sizes]:
    """Give by source the sizes of each tensor that a compilation guards; None stands for one that may vary."""
    printed = raw.guards.get(compile_id)
    found = _CHECKED.finditer(printed.text) if printed else ()
    return {match["source"]: tuple(map(_size, match["sizes"].split(","))) for match in found if match["sizes"].strip()}


def _size(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
