"""Check the system and the installed versions of torch and Triton, without importing them."""

import sys

from ctrace.inspector.errors import SetupError
from ctrace.inspector.knowledge.versions.releases import OLDEST, release_of


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
    if (release := release_of(version)) is not None and release < OLDEST:
        raise SetupError(
            f"torch {version} is too old; ctrace needs {oldest} or newer", f'pip install "torch>={oldest}"'
        )


def check_triton() -> None:
    """Refuse to emit code for a GPU without Triton: Inductor queries Triton's features while it generates code.

    Raises:
        SetupError: Triton is not installed.
    """
    from importlib.util import find_spec

    if find_spec("triton") is None:
        raise SetupError("--target needs Triton, which is not installed in this environment", "pip install triton")
