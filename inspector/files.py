"""Write files whole or not at all, and through links and devices where a user names them."""

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


def write_output(path: Path, text: str) -> None:
    """Write to what a user names: a link leads on, and a device or a pipe takes the text and stays what it is.

    Raises:
        OSError: it cannot be written; what was in a file before is still there.
    """
    if path.exists() and not path.is_file():  # root may replace even /dev/null by a file
        with path.open("w", encoding="utf-8", errors="surrogateescape") as device:
            device.write(text)
    else:
        write_text(Path(os.path.realpath(path)), text)
