"""Where ctrace keeps what is costly to make again; everything there may be deleted."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """Give the folder, which may not be there yet: `$CTRACE_CACHE_DIR`, else `ctrace` in the user's cache folder."""
    own = os.environ.get("CTRACE_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else _home() / ".cache") / "ctrace"


def _home() -> Path:
    """Return the user's home folder; of one who has none, a folder that cannot be made, so that nothing is kept."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)
