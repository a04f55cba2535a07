"""Is there a torch that ctrace can work with? Asked without importing it."""

from ctrace.inspector.errors import SetupError

OLDEST = (2, 11)
NEWEST = (2, 15)
"""The newest release that ctrace was made for; newer ones are tried, and said to be untried."""


def torch_version() -> str | None:
    """Give torch's installed version, or None."""
    from importlib import metadata  # slow to import, and not needed to look at a saved run

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def check_torch() -> None:
    """Refuse to start without a supported torch.

    Raises:
        SetupError: there is no torch, or one too old.
    """
    version = torch_version()
    oldest = ".".join(map(str, OLDEST))
    if version is None:
        raise SetupError("torch is not installed in this environment", f'pip install "torch>={oldest}"')
    if (release := release_of(version)) is not None and release < OLDEST:
        raise SetupError(
            f"torch {version} is too old; ctrace needs {oldest} or newer", f'pip install "torch>={oldest}"'
        )


def check_triton() -> None:
    """Refuse to emit code for a GPU without the compiler that it is emitted for: Inductor asks it for what it can do.

    Raises:
        SetupError: there is no Triton.
    """
    from importlib.util import find_spec

    if find_spec("triton") is None:
        raise SetupError("--target needs Triton, which is not installed in this environment", "pip install triton")


def is_untried(version: str) -> bool:
    """Whether this torch is newer than ctrace knows."""
    release = release_of(version)
    return release is not None and release > NEWEST


def release_of(version: str) -> tuple[int, int] | None:
    """Give major and minor of a version; None: it is no release number."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
