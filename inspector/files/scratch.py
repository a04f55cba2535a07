"""Make a folder for copies that are needed until the process ends."""

import atexit
import shutil
import tempfile
from pathlib import Path


def scratch_folder() -> Path:
    """Return a new folder that is deleted at exit: long texts stay in a log until a view needs them.

    Raises:
        OSError: it cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix="ctrace-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
