"""Name Inductor's patterns (2.11 to 2.13, _inductor/pattern_matcher.py)."""

import inspect
from typing import Any

_ATTENTION = "_sfdp_pattern_"


def pattern_name(entry: Any) -> str:
    """Return a pattern's name: torch's name if it has one, else that of the search or replacement function."""
    own = getattr(entry, "pattern_name", None)
    if own:
        return str(own)
    function = search_function(entry) or getattr(entry, "handler", None)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    # A decorated or partial handler may have no name.
    return str(name or getattr(getattr(function, "func", None), "__name__", None) or type(entry).__name__)


def search_function(entry: Any) -> Any:
    """Return the search function of a replacement, or None for another kind of pattern.

    `register_replacement` keeps it only in its closure `check_fn`.
    """
    return closed_over(getattr(entry, "extra_check", None), "search_fn")


def is_attention_pattern(entry: Any) -> bool:
    """Whether an entry is one of the attention patterns (2.11 to 2.13, _inductor/fx_passes/fuse_attention.py)."""
    return str(getattr(search_function(entry), "__name__", "")).startswith(_ATTENTION)


def closed_over(function: Any, name: str) -> Any:
    """Return the value of a variable in a closure, or None if there is none."""
    # Our own hook wraps `extra_check` and names the original as `__wrapped__`.
    function = inspect.unwrap(function) if callable(function) else None
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells:
        return None
    return next((cell.cell_contents for free, cell in zip(code.co_freevars, cells, strict=True) if free == name), None)
