"""The fixed parts of dumped files, which import torch and so are text here and not modules."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def text(name: str) -> str:
    """Read one of the texts beside this file."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
