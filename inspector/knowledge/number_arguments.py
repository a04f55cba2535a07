"""Arguments of torch's ops that take Python numbers and no tensor, such as the probability of dropout.

`number_arguments.yaml` is written by `tools/number_arguments.py` from torch's schemas.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_suffix(".yaml")
_LINE = re.compile(r"^(?P<op>\w+): \{(?P<arguments>.*)\}$", re.MULTILINE)
_ARGUMENT = re.compile(r"(?P<name>\w+): (?P<place>-?\d+)")
BY_KEYWORD = -1
"""The position of an argument that has none."""


def number_arguments(op: str) -> Mapping[str, int]:
    """Return the arguments of an op that take no tensor, with their positions in a call of the function."""
    return _every().get(op, {})


@cache
def _every() -> Mapping[str, Mapping[str, int]]:
    text = FILE.read_text(encoding="utf-8")
    return {
        line["op"]: {each["name"]: int(each["place"]) for each in _ARGUMENT.finditer(line["arguments"])}
        for line in _LINE.finditer(text)
    }
