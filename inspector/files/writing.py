"""Write files whole or not at all (`write_text`), also through links and into devices if the user names one
(`write_output`).

A user's own file keeps its permissions, its owner and its other names (`replace_text`).
"""

import errno
import glob
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO


def working_folder() -> Path:
    """Return the working directory; if it was deleted, return its former path from the environment."""
    try:
        return Path.cwd()
    except OSError:
        # The name is all that is left of it, and enough for messages.
        return Path(os.environ.get("PWD") or os.sep)


def write_json(path: Path, data: object) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: it cannot be written; the previous content is still there.
    """
    write_text(path, json.dumps(data, indent=1) + "\n")


def check_regular(path: Path) -> None:
    """Refuse a path that is not a regular file: opening a pipe blocks, and a device may never end.

    Raises:
        OSError: the path does not exist, or is not a regular file.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def write_text(path: Path, text: str, *, is_precious: bool = False) -> None:
    """Write a text file whole or not at all; with `is_precious`, it also survives a power failure.

    Raises:
        OSError: it cannot be written; the previous content is still there.
    """
    write_bytes(path, text.encode("utf-8", "surrogateescape"), is_precious=is_precious)


def write_bytes(path: Path, *data: bytes, is_precious: bool = False, mode: int | None = None) -> None:
    """Write a file whole or not at all, with the permissions `mode`; with `is_precious`, it survives a power failure.

    Raises:
        OSError: it cannot be written; the previous content is still there.
    """
    # tempfile creates private files. Usual permissions need the umask, and reading it sets it for all threads.
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        with temporary.open("xb") as file:
            file.writelines(data)
            if is_precious:
                _sync(file)
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):  # the first error has the cause
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # the temporary name says nothing; a full disk has none
        raise


def write_new(path: Path, text: str) -> None:
    """Create a text file whole or not at all; if several processes try, one succeeds.

    Raises:
        FileExistsError: the file exists already.
        OSError: it cannot be written.
    """
    # A link stays a link: what it names is created.
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    write_text(temporary, text, is_precious=True)
    try:
        _link(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _link(temporary: Path, path: Path) -> None:
    """Move a file to a path that does not exist yet."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: reserve the name with a file, then replace that file
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        temporary.replace(path)


def _sync(file: IO[bytes]) -> None:
    """Flush a file to disk before it replaces another: NFS and quotas report a full disk only then."""
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # fsync is not supported
            raise


def write_output(path: Path, text: str) -> None:
    """Write to a path from the user: follow links, and write into devices and pipes instead of replacing them.

    Raises:
        OSError: it cannot be written; the previous content of a file is still there.
    """
    if path.exists() and not path.is_file():  # root could replace even /dev/null with a file
        with path.open("w", encoding="utf-8", errors="surrogateescape") as device:
            device.write(text)
    else:
        write_text(Path(os.path.realpath(path)), text, is_precious=True)


def append_whole(path: Path, data: bytes, *, is_new: bool = True) -> None:
    """Append all of the data to a file or device, or nothing; without `is_new`, the file must exist.

    Raises:
        OSError: it cannot be written; the previous content of a file is still there.
    """
    with path.open("ab" if is_new else "rb+", buffering=0) as file:
        begins = file.seek(0, os.SEEK_END) if path.is_file() else None
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError as error:
            if begins is not None:
                file.truncate(begins)
            error.filename = str(path)
            raise


_TEMPORARY = "ctrace-"
"""Begins, after the file's own name, the names of new texts that are not in their place yet."""


def replace_text(path: Path, text: str) -> None:
    """Replace the text of a file, and survive a power failure.

    Raises:
        OSError: it cannot be written.
    """
    about = path.stat()
    # A new file would have the name, and the other names would keep the old text.
    if about.st_nlink > 1:
        _write_in_place(path, text)
        return
    temporary = path.with_name(f".{path.name}.{_TEMPORARY}{os.urandom(6).hex()}")
    try:
        with temporary.open("xb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if _owned_alike(temporary, about):
            # After the owner: a change of the owner clears the bits for set-user-ID.
            temporary.chmod(about.st_mode & 0o7777)
            temporary.replace(path)
        else:
            _write_in_place(path, text)
            temporary.unlink()
    except BaseException as error:
        with suppress(OSError):  # the first error has the cause
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # the temporary name says nothing; a full disk has none
        raise


def remove_temporaries(files: Iterable[str]) -> None:
    """Delete the new texts beside files that a killed process did not put in their place."""
    for file in files:
        path = Path(file)
        for left in path.parent.glob(f".{glob.escape(path.name)}.{_TEMPORARY}*"):
            with suppress(OSError):
                left.unlink()


def _owned_alike(path: Path, about: os.stat_result) -> bool:
    """Set the owner and the group of a file to those of another; return whether it has them."""
    mine = path.stat()
    if (mine.st_uid, mine.st_gid) == (about.st_uid, about.st_gid):
        return True
    try:
        os.chown(path, about.st_uid, about.st_gid)
    except (OSError, AttributeError):  # only root may; Windows has no owners of this kind
        return False
    return True


def _write_in_place(path: Path, text: str) -> None:
    """Write into an existing file, which keeps its other names and its owner: first the text, then its length."""
    data = text.encode()
    with path.open("r+b", buffering=0) as file:
        file.write(data)
        # In this order, a crash leaves the new text with a rest of the old one, and never an empty file.
        file.truncate(len(data))
        os.fsync(file.fileno())
