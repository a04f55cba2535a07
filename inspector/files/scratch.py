"""Make folders for temporary files: the only place that does.

The folder of temporary files can be full, unwritable, or deleted by the program that ctrace runs.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ctrace.inspector.errors import RunError
from ctrace.inspector.files.disk_errors import ANOTHER_TEMPORARY, reason


def new_scratch_folder(purpose: str = "") -> Path:
    """Make a folder for temporary files, which the caller deletes.

    Raises:
        RunError: no folder for temporary files can be written.
    """
    prefix = f"ctrace-{purpose}-" if purpose else "ctrace-"
    try:
        try:
            return Path(tempfile.mkdtemp(prefix=prefix))
        except FileNotFoundError:  # deleted since Python chose it
            # Python keeps its first choice; None lets it choose again.
            tempfile.tempdir = None
            return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise RunError(f"no folder for temporary files can be written: {reason(error)}", ANOTHER_TEMPORARY) from None


@contextmanager
def scratch(purpose: str = "") -> Iterator[Path]:
    """Make a folder for the block, and delete what is left of it afterwards.

    Raises:
        RunError: no folder for temporary files can be written.
    """
    folder = new_scratch_folder(purpose)
    try:
        yield folder
    finally:
        delete(folder)


def scratch_folder() -> Path:
    """Make a folder that is deleted at exit: long texts stay in a log until a view needs them.

    Raises:
        RunError: no folder for temporary files can be written.
    """
    folder = new_scratch_folder()
    atexit.register(delete, folder)
    return folder


def delete(folder: Path) -> None:
    """Delete a folder of temporary files as far as possible."""
    shutil.rmtree(folder, ignore_errors=True)
