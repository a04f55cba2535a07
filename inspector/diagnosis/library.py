"""Find the installed package and version that a file belongs to."""

import re
from functools import lru_cache

_PACKAGE = re.compile(r"^(?P<folder>.*[/\\](?:site|dist)-packages)[/\\](?P<name>[^/\\]+)")


@lru_cache(maxsize=64)
def package_of(file: str) -> str:
    """Return the package of a file, with its version if it is installed here; empty if it is in no package."""
    match = _PACKAGE.match(file)
    if match is None:
        return ""
    from importlib.metadata import distributions  # slow to import

    name = match["name"].removesuffix(".py")
    found = next(iter(distributions(name=name, path=[match["folder"]])), None)
    if found is not None:
        return f"{name} {found.version}"
    return name


def in_library(file: str) -> str:
    """Describe in parentheses how to change a line of a package; empty for a user's file."""
    package = package_of(file)
    if package:
        return f" ({package}: patch it from your code, or report it there)"
    return ""
