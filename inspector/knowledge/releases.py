"""The releases of torch that ctrace supports, one row each, for doctor, the tests and `make matrix`; and which is here.

The installed versions of torch and Triton are read without importing them. Here, in `version_differences.py` and in
what they import, there is nothing but the standard library: `make matrix` runs before anything is installed.
"""

import sys
from typing import NamedTuple

from ctrace.inspector.errors import SetupError


class Release(NamedTuple):
    """A release of torch with its Triton and Pythons."""

    torch: str
    """The newest patch release, which `make matrix` installs."""
    triton: str
    """The Triton that torch requires; another version imports, but may generate other code."""
    pythons: tuple[str, ...]
    """Pythons with a wheel on PyPI, of those that ctrace supports."""

    @property
    def minor(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor, *_ = self.torch.split(".")
        return int(major), int(minor)


PYTHONS = ("3.11", "3.12", "3.13", "3.14")
RELEASES = (
    Release("2.11.0", "3.6.0", PYTHONS),
    Release("2.12.1", "3.7.1", PYTHONS),
    Release("2.13.0", "3.7.1", PYTHONS),
    Release("2.14.1", "3.8.0", PYTHONS),
    Release("2.15.0", "3.9.0", PYTHONS),
)
"""Oldest first."""
OLDEST = RELEASES[0].minor
NEWEST = RELEASES[-1].minor
"""The newest release that ctrace is tested with; newer ones run with a note that they are untested."""


def release_of(version: str) -> tuple[int, int] | None:
    """Return the major and minor version, or None if this is not a release number."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if major.isdecimal() and minor.isdecimal():
        return (int(major), int(minor))
    return None


def triton_of(version: str) -> str | None:
    """Return the Triton that a version of torch is released with, or None for an unknown torch."""
    # A wheel's suffix, as in `2.13.0+cu130`, says nothing about Triton.
    return next((each.triton for each in RELEASES if each.torch == version.partition("+")[0]), None)


def is_untried(version: str) -> bool:
    """Whether this torch is newer than the newest release that ctrace is tested with."""
    release = release_of(version)
    return release is not None and release > NEWEST


def torch_version() -> str | None:
    """Return the installed version of torch, or None."""
    from importlib import metadata  # slow to import, and views of saved runs do not need it

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def check_environment() -> None:
    """Refuse to capture on Windows, where a capture cannot end what it starts, and without a supported torch.

    Raises:
        SetupError: the system is Windows, or torch is missing or too old.
    """
    if sys.platform == "win32":
        raise SetupError(
            "ctrace cannot run models on Windows", "run it in WSL 2; saved runs and logs of torch can be read here"
        )
    version = torch_version()
    oldest = ".".join(map(str, OLDEST))
    if version is None:
        raise SetupError("torch is not installed in this environment", f'pip install "torch>={oldest}"')
    # A version that is no number, as of a build from source, may be any: it gets its try.
    if (release := release_of(version)) is not None and release < OLDEST:
        raise SetupError(
            f"torch {version} is too old; ctrace needs {oldest} or newer", f'pip install "torch>={oldest}"'
        )


def check_triton() -> None:
    """Refuse to emit code for a GPU without Triton: Inductor queries Triton's features while it generates code.

    Raises:
        SetupError: Triton is not installed.
    """
    # Not by importing it, which would load all of Triton for a yes or no.
    from importlib.util import find_spec

    if find_spec("triton") is None:
        raise SetupError("--target needs Triton, which is not installed in this environment", "pip install triton")
