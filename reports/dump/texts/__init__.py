"""The fixed parts of dumped files and of packages, as text and not as modules, because they import torch."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def text(name: str) -> str:
    """Read one of the text files in this folder."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8")
