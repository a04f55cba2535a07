"""Code of installed packages: which package it is, and which version of it."""

import re
from functools import lru_cache

_PACKAGE = re.compile(r"^(?P<folder>.*[/\\](?:site|dist)-packages)[/\\](?P<name>[^/\\]+)")


@lru_cache(maxsize=64)
def package_of(file: str) -> str:
    """Return the package of a file, with its version if it is installed here; empty: none."""
    match = _PACKAGE.match(file)
    if match is None:
        return ""
    from importlib.metadata import distributions  # slow to import

    name = match["name"].removesuffix(".py")
    found = next(iter(distributions(name=name, path=[match["folder"]])), None)
    return f"{name} {found.version}" if found is not None else name


def in_library(file: str) -> str:
    """Say, in parentheses, how to change a line of a package; empty: it is the user's file."""
    package = package_of(file)
    return f" ({package}: patch it from your code, or report it there)" if package else ""
