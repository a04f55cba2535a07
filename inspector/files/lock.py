"""Let one ctrace process at a time change a file, and protect runs that another process reads from deletion.

The system releases all locks when their process ends.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# Chosen: short beside writing a run; `flock` has no wait with a time limit.
_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 1.0
"""After this time, a waiting process says for what it waits."""
# No links: somebody else could put one in the place of the lock file, and have another file created.
_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other ctrace processes from writing `path` during the block, by a lock file next to it.

    The lock file is deleted afterwards. Without lock support, as on some network drives, the block runs unlocked and
    `say` gets a warning.
    """
    lock_file = path.with_name(f".{path.name}.lock")
    descriptor = _acquire(lock_file, path.name, say)
    try:
        yield
    finally:
        if descriptor is not None:
            _release(lock_file, descriptor)


def _acquire(lock_file: Path, name: str, say: Callable[[str], None]) -> int | None:
    """Wait for the lock. If the lock file was replaced or deleted meanwhile, try again."""
    began, has_warned = time.monotonic(), False
    while True:
        try:
            if (descriptor := _try_acquire(lock_file)) is not None:
                return descriptor
        except OSError as error:
            why = error.strerror or type(error).__name__
            say(f"ctrace: {name} cannot be locked ({why}); another ctrace may write it at the same time")
            return None
        if not has_warned and time.monotonic() - began > _PATIENCE_SECONDS:
            say(f"ctrace: waiting for another ctrace to finish writing {name}")
            has_warned = True
        time.sleep(_POLL_SECONDS)


def _try_acquire(lock_file: Path) -> int | None:
    """Try to lock the lock file; return None if another process has the lock.

    Raises:
        OSError: the file cannot be created, or the file system does not support locks.
    """
    descriptor = os.open(lock_file, _OPEN, 0o666)
    is_locked = False
    try:
        # A process that waited may lock a file that its owner has deleted: then a third process locks the new one.
        is_locked = _try_lock(descriptor) and _is_at(descriptor, lock_file)
    finally:
        if not is_locked:
            os.close(descriptor)
    return descriptor if is_locked else None


def _try_lock(descriptor: int) -> bool:
    """Try to lock an open file; return False if another process has locked it.

    Raises:
        OSError: the file system does not support locks.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # msvcrt raises PermissionError
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _release(lock_file: Path, descriptor: int) -> None:
    """Delete the file while it is still locked: waiting processes notice and create a new one."""
    with suppress(OSError):  # Windows cannot delete an open file; a leftover empty file locks nothing
        lock_file.unlink()
    os.close(descriptor)


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Mark a folder as used during the block, so that `unused` yields False; without lock support, do nothing."""
    with _opened(folder) as descriptor:
        if descriptor is not None:
            _share(descriptor)
        yield


@contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Yield whether no other process uses a folder, and keep others out during the block."""
    with _opened(folder) as descriptor:
        yield descriptor is None or _is_free(descriptor)


@contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:  # Windows cannot open a folder
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _share(descriptor: int) -> None:
    if sys.platform != "win32":
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)


def _is_free(descriptor: int) -> bool:
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # NFS locks only files that are open for writing, and folders never are
        return True
    return True
