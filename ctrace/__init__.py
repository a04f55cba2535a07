"""Inspect what torch.compile does to a model."""

import os

__all__ = ["__version__", "explain", "text", "trace"]

# Installed, cli/, inspector/ and reports/ lie inside this folder; in a checkout, beside it.
# With `python -m ctrace` the working directory is still on the path here: nothing may be imported that is not loaded.
# ruff: noqa: PTH112, PTH118, PTH120
_here = os.path.dirname(os.path.realpath(__file__))
if not os.path.isdir(os.path.join(_here, "cli")):
    __path__.append(os.path.dirname(_here))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ctrace.cli.show import session_text as text
    from ctrace.inspector.api import explain, trace
    from ctrace.inspector.version import __version__
else:
    # Hidden from type checkers: they would take a module with __getattr__ to have every name.
    def __getattr__(name: str) -> object:
        """Load public names on first use, so that `import ctrace` stays free of torch."""
        if name == "__version__":
            from ctrace.inspector.version import __version__

            return __version__
        if name == "text":
            from ctrace.cli.show import session_text

            return session_text
        if name not in {"explain", "trace"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ctrace.cli.notebook import show_in_notebooks
        from ctrace.inspector import api

        show_in_notebooks()
        return getattr(api, name)


def load_ipython_extension(shell: object) -> None:
    """Add the `%%ctrace` magic to IPython, and show runs as pages; `%load_ext ctrace` calls this."""
    from ctrace.cli.notebook import load

    load(shell)
