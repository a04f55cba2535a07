"""Inspect what torch.compile does to a model."""

from pathlib import Path
from typing import TYPE_CHECKING

__all__ = ["__version__", "explain", "trace"]

__version__ = "0.1.0"

# Installed, cli/, inspector/ and reports/ lie inside this folder; in a checkout, beside it.
_here = Path(__file__).resolve().parent
if not (_here / "cli").is_dir():
    __path__.append(str(_here.parent))

if TYPE_CHECKING:
    from ctrace.inspector.api import explain, trace
else:
    # Hidden from type checkers: they would take a module with __getattr__ to have every name.
    def __getattr__(name: str) -> object:
        """Load the public functions on first use, so that `import ctrace` stays free of torch."""
        if name not in {"explain", "trace"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ctrace.inspector import api

        return getattr(api, name)
