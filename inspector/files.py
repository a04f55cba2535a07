"""Write files whole or not at all."""

import json
import os
import tempfile
from pathlib import Path


def write_json(path: Path, data: object) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    write_text(path, json.dumps(data, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
