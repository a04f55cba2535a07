"""The fixed parts of ejected packages. They import torch, so ctrace keeps them as text, not as modules."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def text(name: str) -> str:
    """Read one of the text files in this folder."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
