"""Write files whole or not at all."""

import json
import os
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
    # Not tempfile, whose files are private: to give them usual rights, the umask must be set, for all threads at once.
    made = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        with made.open("x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
