"""Let one process of ctrace at a time change a file, and keep what one reads from being deleted by another.

All locks end with the process that holds them, however it ends.
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

_POLL_SECONDS = 0.05
_PATIENCE_SECONDS = 1.0
"""After which a process says what it waits for."""
_OPEN = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


@contextmanager
def locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other processes from writing `path` in the block: each locks a file beside it, which is gone afterwards.

    Where the system offers no lock, as on some network drives, `say` hears so and the block runs.
    """
    beside = path.with_name(f".{path.name}.lock")
    held = _taken(beside, path.name, say)
    try:
        yield
    finally:
        if held is not None:
            _give_up(beside, held)


def _taken(beside: Path, name: str, say: Callable[[str], None]) -> int | None:
    """Wait for the lock. A file that was replaced meanwhile, or that its last holder deleted, is no lock any more."""
    began, has_said = time.monotonic(), False
    while True:
        try:
            if (held := _attempt(beside)) is not None:
                return held
        except OSError as error:
            why = error.strerror or type(error).__name__
            say(f"ctrace: {name} cannot be locked ({why}); another ctrace may write it at the same time")
            return None
        if not has_said and time.monotonic() - began > _PATIENCE_SECONDS:
            say(f"ctrace: waiting for another ctrace to finish writing {name}")
            has_said = True
        time.sleep(_POLL_SECONDS)


def _attempt(beside: Path) -> int | None:
    """Lock the file that stands for the lock; None: another process has it.

    Raises:
        OSError: the file cannot be made, or this file system knows no locks.
    """
    held = os.open(beside, _OPEN, 0o666)
    is_locked = False
    try:
        is_locked = _try(held) and _is_at(held, beside)
    finally:
        if not is_locked:
            os.close(held)
    return held if is_locked else None


def _try(descriptor: int) -> bool:
    """Lock an open file; False: another process has it.

    Raises:
        OSError: this file system knows no locks.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # msvcrt raises the second
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def _give_up(beside: Path, held: int) -> None:
    """Delete the file while it is still locked: whoever waits for it sees that, and makes another."""
    with suppress(OSError):  # Windows deletes no open file; an empty one that stays locks nothing
        beside.unlink()
    os.close(held)


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep `unused` from holding for a folder in the block; where there are no such locks, nothing does."""
    with _opened(folder) as descriptor:
        if descriptor is not None:
            _share(descriptor)
        yield


@contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Say whether no other process uses a folder, and keep it so in the block."""
    with _opened(folder) as descriptor:
        yield descriptor is None or _is_free(descriptor)


@contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:  # Windows opens no folder
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
    except OSError:  # NFS locks only what is open for writing, and no folder ever is
        return True
    return True
