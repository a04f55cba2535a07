"""Write files whole or not at all, and through links and devices where a user names them."""

import errno
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO


def working_folder() -> Path:
    """Return the working directory; where it was deleted, the path that it had for whoever started this process."""
    try:
        return Path.cwd()
    except OSError:
        return Path(os.environ.get("PWD") or os.sep)


def write_json(path: Path, data: object) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    write_text(path, json.dumps(data, indent=1) + "\n")


def check_regular(path: Path) -> None:
    """Refuse what is there and is no file: opening a pipe waits, and a device may never end.

    Raises:
        OSError: it is not there, or is no file.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def write_text(path: Path, text: str, *, is_precious: bool = False) -> None:
    """Write a text file whole or not at all; what `is_precious` survives a power cut, too.

    Raises:
        OSError: it cannot be written; what was there before is still there.
    """
    # Not tempfile, whose files are private: to give them usual rights, the umask must be set, for all threads at once.
    made = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        with made.open("x", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            if is_precious:
                _sync(file)
        made.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is the one that says what is wrong
            made.unlink(missing_ok=True)
        raise


def write_new(path: Path, text: str) -> None:
    """Write a text file that is not there yet, whole or not at all; of several processes, one succeeds.

    Raises:
        FileExistsError: it is there.
        OSError: it cannot be written.
    """
    path = Path(os.path.realpath(path))
    made = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    write_text(made, text, is_precious=True)
    try:
        _link(made, path)
    finally:
        with suppress(OSError):
            made.unlink()


def _link(made: Path, path: Path) -> None:
    """Put a file where there is none."""
    try:
        os.link(made, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: reserve the name, and put the file there
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        made.replace(path)


def _sync(file: IO[str]) -> None:
    """Have the disk take a file before it replaces another: some say only then that they are full (NFS, quotas)."""
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # it knows no such thing
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
        write_text(Path(os.path.realpath(path)), text, is_precious=True)


def append_whole(path: Path, text: str) -> None:
    """Append to a file, or a device, all of a text or nothing.

    Raises:
        OSError: it cannot be written; what was in a file before is still there.
    """
    with path.open("ab", buffering=0) as file:
        begins = file.tell() if path.is_file() else None
        rest = memoryview(text.encode("utf-8", "surrogateescape"))
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            if begins is not None:
                file.truncate(begins)
            raise
