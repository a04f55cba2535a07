"""Where ctrace keeps what is costly to make again; everything there may be deleted."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """Give the folder, which may not be there yet: `$CTRACE_CACHE_DIR`, else `ctrace` in the user's cache folder."""
    own = os.environ.get("CTRACE_CACHE_DIR")
    if own:
        return Path(own).expanduser()
    users = os.environ.get("XDG_CACHE_HOME")
    return (Path(users) if users else Path.home() / ".cache") / "ctrace"
