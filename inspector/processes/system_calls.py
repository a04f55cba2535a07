"""Record what a program and its descendants ask of the system: which files, folders, links, programs and connections.

The answers count, too: a program that looked for a file and did not find it behaves differently once the file is there.
Python reports only a part of this (no audit event for `os.stat`, nothing that native code does), and replacing Python's
functions would change what Dynamo traces. So the kernel reports it: on Linux, a filter holds each system call until
another process has looked at it (seccomp_unotify(2), "seccomp user notification"). The program installs the filter on
itself (`install`) and its watcher listens (`Listener`). The call then continues unchanged, about 20 us later.

A question gets the answer of the moment it was first asked. What the program made itself is not a question.

`watcher.py` loads this file by its path, so it imports nothing from ctrace.
"""

import ctypes
import errno
import fcntl
import json
import os
import platform
import select
import socket
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum, auto
from typing import Any, NamedTuple

_OLDEST_KERNEL = (5, 5)
"""Older kernels cannot continue a call (SECCOMP_USER_NOTIF_FLAG_CONTINUE)."""
_PR_SET_NO_NEW_PRIVS = 38  # linux/prctl.h
_SET_FILTER = 1  # linux/seccomp.h: SECCOMP_SET_MODE_FILTER
_NEW_LISTENER, _SPEC_ALLOW, _WAIT_KILLABLE = 1 << 3, 1 << 2, 1 << 5  # SECCOMP_FILTER_FLAG_*; the last since 5.19
_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104  # SECCOMP_IOCTL_NOTIF_*
_SYNC_WAKE_UP = 1  # SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, since 6.6: almost halves the time of a notification
_CONTINUE = 1
"""`SECCOMP_USER_NOTIF_FLAG_CONTINUE` of Linux: let the call go on."""
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000  # SECCOMP_RET_*
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_BITS, _RETURN = 0x20, 0x15, 0x45, 0x06  # linux/bpf_common.h
_AT_NUMBER, _AT_ARCHITECTURE, _AT_ARGUMENTS = 0, 4, 16  # struct seccomp_data
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_O_PATH, _O_TMPFILE_BIT = 0o10000000, 0o20000000
_END = "/dev/null/what the program asks ends here"
"""A path that cannot exist, and that no other program asks for."""
# The smallest page of the processors that ctrace runs on: memory is readable up to the end of a page, and reading
# across it may fail.
_PAGE = 4096
# PATH_MAX (linux/limits.h): the kernel takes no longer path.
_LONGEST_PATH = 4096
# Chosen: bounds the memory; a program that looks for more files walks a data set.
_MOST_PATHS = 200_000
_UNSTEADY = ("/proc/", "/dev/fd", "/dev/std", "/dev/pts", "/dev/tty")
"""What lies here depends on the process that asks."""
_INTERNET = {2: "the internet", 10: "the internet"}  # AF_INET, AF_INET6
_UNIX = 1
"""`AF_UNIX` of Linux."""
_NAME_SERVICES = ("/nscd/", "/systemd/", "/dev/log")
"""Sockets that the C library asks for users and hosts, or writes its log to."""


class PathUse(Enum):
    """What a system call does with a path."""

    OPEN = auto()
    LOOK = auto()
    MAKE = auto()
    """Make a file, folder or link; fails if there is one."""
    REMOVE = auto()
    MOVE = auto()
    """The second path is replaced."""
    WRITE = auto()
    RUN = auto()
    CONNECT = auto()
    ESCAPE = auto()
    """From here on, the filter does not see all."""


class _Call(NamedTuple):
    """Where a system call has its path: the index of its argument, and of the folder that it is relative to."""

    kind: PathUse
    path: int = 0
    folder: int | None = None
    flags: int | None = None
    other: int | None = None
    """The second path, of a call that has two."""
    other_folder: int | None = None


_OF_BOTH = {
    "openat": _Call(PathUse.OPEN, 1, 0, 2),
    "openat2": _Call(PathUse.OPEN, 1, 0, 2),
    "newfstatat": _Call(PathUse.LOOK, 1, 0, 3),
    "statx": _Call(PathUse.LOOK, 1, 0, 2),
    "faccessat": _Call(PathUse.LOOK, 1, 0),
    "faccessat2": _Call(PathUse.LOOK, 1, 0),
    "readlinkat": _Call(PathUse.LOOK, 1, 0),
    "statfs": _Call(PathUse.LOOK),
    "getxattr": _Call(PathUse.LOOK),
    "lgetxattr": _Call(PathUse.LOOK),
    "mkdirat": _Call(PathUse.MAKE, 1, 0),
    "linkat": _Call(PathUse.MAKE, 3, 2),
    "symlinkat": _Call(PathUse.MAKE, 2, 1),
    "unlinkat": _Call(PathUse.REMOVE, 1, 0),
    "renameat": _Call(PathUse.MOVE, 1, 0, None, 3, 2),
    "renameat2": _Call(PathUse.MOVE, 1, 0, None, 3, 2),
    "truncate": _Call(PathUse.WRITE),
    "execve": _Call(PathUse.RUN),
    "execveat": _Call(PathUse.RUN, 1, 0),
    "connect": _Call(PathUse.CONNECT),
    "bind": _Call(PathUse.CONNECT),
    "open_by_handle_at": _Call(PathUse.ESCAPE),
    "io_uring_setup": _Call(PathUse.ESCAPE),
    "chroot": _Call(PathUse.ESCAPE),
}
_OF_X86 = {
    "open": _Call(PathUse.OPEN, flags=1),
    "creat": _Call(PathUse.WRITE),
    "stat": _Call(PathUse.LOOK),
    "lstat": _Call(PathUse.LOOK),
    "access": _Call(PathUse.LOOK),
    "readlink": _Call(PathUse.LOOK),
    "mkdir": _Call(PathUse.MAKE),
    "link": _Call(PathUse.MAKE, 1),
    "symlink": _Call(PathUse.MAKE, 1),
    "unlink": _Call(PathUse.REMOVE),
    "rmdir": _Call(PathUse.REMOVE),
    "rename": _Call(PathUse.MOVE, other=1),
}
_X86_NUMBERS = {
    "open": 2, "stat": 4, "lstat": 6, "access": 21, "connect": 42, "bind": 49, "execve": 59, "truncate": 76,
    "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "readlink": 89,
    "statfs": 137, "chroot": 161, "getxattr": 191, "lgetxattr": 192, "openat": 257, "mkdirat": 258, "newfstatat": 262,
    "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "readlinkat": 267, "faccessat": 269,
    "open_by_handle_at": 304, "renameat2": 316, "execveat": 322, "statx": 332, "io_uring_setup": 425, "openat2": 437,
    "faccessat2": 439,
}  # fmt: skip
_ARM_NUMBERS = {
    "getxattr": 8, "lgetxattr": 9, "mkdirat": 34, "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38,
    "statfs": 43, "truncate": 45, "faccessat": 48, "chroot": 51, "openat": 56, "readlinkat": 78, "newfstatat": 79,
    "bind": 200, "connect": 203, "execve": 221, "open_by_handle_at": 265, "renameat2": 276, "execveat": 281,
    "statx": 291, "io_uring_setup": 425, "openat2": 437, "faccessat2": 439,
}  # fmt: skip


class _Machine(NamedTuple):
    """The numbers of a processor's system calls (asm/unistd_64.h), and its mark in the kernel (linux/audit.h)."""

    mark: int
    seccomp: int
    numbers: dict[str, int]


_MACHINES = {
    "x86_64": _Machine(0xC000003E, 317, _X86_NUMBERS),
    "aarch64": _Machine(0xC00000B7, 277, _ARM_NUMBERS),
}


class NotObservableError(Exception):
    """This system cannot report what a program asks; the message says why."""


def install() -> int:
    """Report this process's calls, and those of its descendants, from now on; return the descriptor to listen to.

    Every reported call waits until somebody listens.

    Raises:
        NotObservableError: the system cannot do this.
    """
    machine = _machine()
    code = b"".join(_filter(machine))
    kept = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(kept))
    libc = ctypes.CDLL(None, use_errno=True)

    def tried(flags: int) -> int:
        return int(libc.syscall(machine.seccomp, _SET_FILTER, flags, ctypes.byref(program)))

    # `_SPEC_ALLOW` keeps the processor's speculation as it is: without it, the program would run slower than alone.
    flags = _NEW_LISTENER | _SPEC_ALLOW | _WAIT_KILLABLE
    found = tried(flags)
    if found < 0 and ctypes.get_errno() == errno.EACCES:
        # Without this, only root may install a filter: programs with more rights than their caller would inherit it.
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        found = tried(flags)
    if found < 0 and ctypes.get_errno() == errno.EINVAL:
        found = tried(flags & ~_WAIT_KILLABLE)
    if found < 0:
        raise NotObservableError(f"seccomp: {os.strerror(ctypes.get_errno())}")
    return found


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))  # struct sock_fprog


def _machine() -> _Machine:
    found = _MACHINES.get(platform.machine())
    if found is None or struct.calcsize("P") != 8:
        raise NotObservableError(f"seccomp: numbers of system calls are not known for {platform.machine()}")
    release = platform.release().split(".")
    if tuple(int("".join(filter(str.isdigit, each)) or 0) for each in release[:2]) < _OLDEST_KERNEL:
        raise NotObservableError(f"Linux {platform.release()} is too old to report what programs ask")
    return found


def _filter(machine: _Machine) -> Iterator[bytes]:
    """Yield the filter's instructions: report the calls of the table, except questions about an open file."""
    calls = [(machine.numbers[name], name) for name in (*_OF_BOTH, *_OF_X86) if name in machine.numbers]
    # A question about an open file is no new question, and programs ask it thousands of times.
    about_open = {"newfstatat": 3, "statx": 2}  # fstat(2) is one of these with AT_EMPTY_PATH
    plain = [number for number, name in calls if name not in about_open]
    yield _instruction(_LOAD, _AT_ARCHITECTURE)
    # First the architecture: the numbers of calls mean something else in another one.
    yield _instruction(_JUMP_IF_EQUAL, machine.mark, 1, 0)
    yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_LOAD, _AT_NUMBER)
    for name, argument in about_open.items():
        yield _instruction(_JUMP_IF_EQUAL, machine.numbers[name], 0, 4)
        yield _instruction(_LOAD, _AT_ARGUMENTS + 8 * argument)
        yield _instruction(_JUMP_IF_BITS, _AT_EMPTY_PATH, 1, 0)
        yield _instruction(_RETURN, _NOTIFY)
        yield _instruction(_RETURN, _ALLOW)
    for at, number in enumerate(plain):
        yield _instruction(_JUMP_IF_EQUAL, number, len(plain) - at, 0)
    yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_RETURN, _NOTIFY)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def begin(descriptor: int) -> None:
    """Report this process's calls from now on to the watcher at the other end of a socket; close this end."""
    with socket.socket(fileno=descriptor) as watcher:
        try:
            listener = install()
        except NotObservableError as error:
            watcher.send(str(error).encode())
        else:
            socket.send_fds(watcher, [b"\0"], [listener])
            os.close(listener)


def end() -> None:
    """Tell the watcher, if there is one, that what this process asks from now on does not count."""
    # A system call like any other, so that it reaches the watcher after all that came before it.
    os.access(_END, os.F_OK)


class Observation:
    """What a watcher learns about a program, which begins to report when it calls `begin`."""

    def __init__(self) -> None:
        """Make the socket; a fork then keeps one end, and this process the other."""
        ours, theirs = socket.socketpair()
        self._ours: socket.socket | None = ours
        self._theirs = theirs
        self._listener: _Listener | None = None
        self._questions = Questions()
        self._program = 0

    def end_of_program(self) -> int:
        """Return the program's end, in the program; it stays open when another image is loaded."""
        if self._ours is not None:
            self._ours.close()
        self._theirs.set_inheritable(True)
        return self._theirs.detach()

    def begin_in_watcher(self, program: int) -> None:
        """Close the program's end, in the watcher; `program` is the program's process."""
        self._program = program
        self._theirs.close()

    @property
    def descriptor(self) -> int | None:
        """What to wait for before `serve`; None: nothing more will come."""
        if self._listener is not None:
            return self._listener.descriptor
        if self._ours is None:
            return None
        return self._ours.fileno()

    def serve(self) -> None:
        """Handle the waiting reports, so that the calls continue."""
        if self._ours is not None:
            self._receive(self._ours)
            self._ours.close()
            self._ours = None
        elif self._listener is not None and not self._listener.serve():
            self._listener.close()
            self._listener = None

    def facts(self) -> str:
        """Return what the program has asked so far; see `Questions.facts`."""
        if self._ours is not None:
            self._questions.hide("the program ended before it was observed")
        return self._questions.facts()

    def _receive(self, ours: socket.socket) -> None:
        text, descriptors, _, _ = socket.recv_fds(ours, 1024, 1)
        if descriptors:
            self._listener = _Listener(descriptors[0], self._program, self._questions)
        else:
            self._questions.hide(text.decode() or "the program ended before it was observed")


class _Listener:
    """Receives the reports about a program, and lets each call continue."""

    def __init__(self, descriptor: int, program: int, questions: "Questions") -> None:
        self.descriptor = descriptor
        self.questions = questions
        self._program = program
        self._memory: int | None = None
        self._is_over = False
        machine = _machine()
        known = {**_OF_BOTH, **_OF_X86}
        self._plain: dict[PathUse, Callable[[str], object]] = {
            PathUse.LOOK: questions.look,
            PathUse.MAKE: questions.make,
            PathUse.REMOVE: questions.remove,
            PathUse.RUN: questions.run,
        }
        self._calls = {number: (name, known[name]) for name, number in machine.numbers.items()}
        self._buffer = bytearray(256)
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        libc = ctypes.CDLL(None)
        libc.ioctl(descriptor, ctypes.c_ulong(_SET_FLAGS), ctypes.c_uint64(_SYNC_WAKE_UP))  # older kernels refuse

    def serve(self) -> bool:
        """Handle the waiting reports; return False if no process is left that could send any."""
        while found := self._poll.poll(0):
            if found[0][1] & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                return False
            self._handle_one()
        return True

    def close(self) -> None:
        """Close the descriptors."""
        self._forget_memory()
        os.close(self.descriptor)

    def _handle_one(self) -> None:
        self._buffer[:] = bytes(len(self._buffer))  # the kernel demands zeros
        try:
            fcntl.ioctl(self.descriptor, _RECEIVE, self._buffer)
        except OSError:  # the process was killed meanwhile
            return
        number, thread, _, call, _, _, *arguments = _NOTIFICATION.unpack_from(self._buffer)
        try:
            self._note(thread, call, arguments)
        except Exception as error:  # a program must not hang because of a path that cannot be understood
            self.questions.hide(f"a question could not be read: {type(error).__name__}: {error}")
        finally:
            with suppress(OSError):  # likewise
                fcntl.ioctl(self.descriptor, _SEND, bytearray(_RESPONSE.pack(number, 0, 0, _CONTINUE)))

    def _note(self, thread: int, number: int, arguments: list[int]) -> None:
        if self._is_over:
            return
        name, call = self._calls[number]
        if call.kind is PathUse.ESCAPE:
            self.questions.hide(f"it calls {name}")
        elif call.kind is PathUse.CONNECT:
            self._note_address(thread, arguments)
        elif (path := self._path(thread, arguments, call.path, call.folder)) == _END:
            self._is_over = True
        elif path is not None:
            self._note_path(path, thread, name, call, arguments)

    def _note_path(self, path: str, thread: int, name: str, call: _Call, arguments: list[int]) -> None:
        asked = self.questions
        if call.kind is PathUse.OPEN:
            asked.open(path, self._flags(thread, name, call, arguments))
        elif call.kind is PathUse.WRITE:
            asked.open(path, os.O_WRONLY | (os.O_CREAT | os.O_TRUNC if name == "creat" else 0))
        elif call.kind is PathUse.MOVE:
            assert call.other is not None
            asked.remove(path)
            if (other := self._path(thread, arguments, call.other, call.other_folder)) is not None:
                asked.replace(other)
        else:
            # Another image has another memory; the descriptor still shows the old one.
            if call.kind is PathUse.RUN and thread == self._program:
                self._forget_memory()
            self._plain[call.kind](path)

    def _note_address(self, thread: int, arguments: list[int]) -> None:
        address = self._read(thread, arguments[1], min(arguments[2], 128))
        family = int.from_bytes(address[:2], "little")
        if family in _INTERNET:
            self.questions.connect(_INTERNET[family])
        elif family == _UNIX and address[2:3] not in (b"", b"\0"):
            path = os.fsdecode(address[2:].partition(b"\0")[0])
            self.questions.look(path)
            if os.path.exists(path) and not any(each in path for each in _NAME_SERVICES):  # noqa: PTH110
                self.questions.connect(path)

    def _flags(self, thread: int, name: str, call: _Call, arguments: list[int]) -> int:
        assert call.flags is not None
        value = arguments[call.flags]
        if name == "openat2":  # a pointer to struct open_how
            return int.from_bytes(self._read(thread, value, 8), "little")
        return value & 0xFFFFFFFF

    def _path(self, thread: int, arguments: list[int], at: int, folder: int | None) -> str | None:
        """Return an argument as an absolute path; None for an empty one, which names an open file or nothing."""
        text = self._text(thread, arguments[at])
        if not text:
            return None
        path = os.fsdecode(text)
        if path.startswith("/"):
            return _normal(path)
        if folder is None:
            number = _AT_FDCWD
        else:
            number = ctypes.c_int(arguments[folder] & 0xFFFFFFFF).value
        if number == _AT_FDCWD:
            link = f"/proc/{thread}/cwd"
        else:
            link = f"/proc/{thread}/fd/{number}"
        base = os.readlink(link)  # noqa: PTH115 - pathlib takes longer than the whole question
        return _normal(f"{base}/{path}")

    def _text(self, thread: int, address: int) -> bytes:
        """Read a text that ends with a zero byte; one may lie just before the end of what can be read."""
        text = b""
        while address and len(text) < _LONGEST_PATH:
            start = address + len(text)
            data = self._read(thread, start, _PAGE - start % _PAGE)
            piece, end, _ = data.partition(b"\0")
            text += piece
            if end or not piece:
                break
        return text

    def _read(self, thread: int, address: int, length: int) -> bytes:
        """Read memory of a process.

        Only the program's own memory stays open: the number of another process may soon belong to a third one.
        """
        if thread == self._program:
            if self._memory is None:
                self._memory = _opened_memory(thread)
            if found := os.pread(self._memory, length, address):
                return found
            self._forget_memory()
        memory = _opened_memory(thread)
        try:
            return os.pread(memory, length, address)
        finally:
            os.close(memory)

    def _forget_memory(self) -> None:
        if self._memory is not None:
            os.close(self._memory)
            self._memory = None


def _opened_memory(thread: int) -> int:
    return os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)


def _normal(path: str) -> str:
    """Simplify a path, except that `..` behind a link leads elsewhere than to the folder before it."""
    if "/." not in path and "//" not in path and not path.endswith("/"):
        return path
    found = "/"
    for part in path.split("/"):
        if part == "..":
            found = os.path.dirname(os.path.realpath(found))  # noqa: PTH120
        elif part not in ("", "."):
            found = f"{found.rstrip('/')}/{part}"
    return found


class Questions:
    """What a program asked, with the answers that it got."""

    def __init__(self) -> None:
        self.looked: dict[str, str] = {}
        """The first answer for each path that was looked for; see `answer`."""
        self.read: dict[str, list[int]] = {}
        """The stamp of each file that was opened for reading, at that time; see `stamp`."""
        self.listed: dict[str, tuple[int, list[str]]] = {}
        """For each folder that was listed, how often, and its first listing; see `listing`."""
        self.written: set[str] = set()
        """Files that were there before and were changed."""
        self.ran: list[str] = []
        self.connected: list[str] = []
        self.hidden = ""
        """Why the questions may be incomplete; empty if they are complete."""
        self._made: set[str] = set()

    def facts(self) -> str:
        """Return all as one line of JSON."""
        found: dict[str, Any] = {name: getattr(self, name) for name in ("looked", "read", "listed", "ran", "connected")}
        return json.dumps({**found, "written": sorted(self.written), "hidden": self.hidden})

    def hide(self, why: str) -> None:
        """Note that not all questions are seen."""
        self.hidden = self.hidden or why

    def look(self, path: str) -> str | None:
        """Note a look at a path; return the answer, or None if the path does not count."""
        if path.startswith(_UNSTEADY) or self._is_made(path):
            return None
        found = self.looked.get(path)
        if found is None:
            if len(self.looked) >= _MOST_PATHS:
                self.hide(f"it looks for more than {_MOST_PATHS} files")
                return None
            found = self.looked[path] = answer(path)
        return found

    def open(self, path: str, flags: int) -> None:
        """Note that a file or a folder is opened."""
        if flags & _O_TMPFILE_BIT:  # a file without a name
            return
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_TRUNC)
        if flags & os.O_TRUNC or (flags & os.O_ACCMODE == os.O_WRONLY and not flags & os.O_EXCL):
            self._write(path, is_new=bool(flags & os.O_TRUNC))
            return
        found = self.look(path)
        if found is None:
            return
        if is_missing(found):
            if flags & os.O_CREAT:
                self._made.add(path)
        elif flags & _O_PATH:
            return
        elif is_folder(found):
            self._list(path)
        elif not writes or flags & os.O_RDWR:
            self.read.setdefault(path, stamp(path))

    def make(self, path: str) -> None:
        """Note that a file, folder or link is made, which fails if there is one."""
        found = self.look(path)
        if found is not None and is_missing(found):
            self._made.add(path)

    def remove(self, path: str) -> None:
        """Note that a file, folder or link is removed."""
        self.look(path)
        self._made.add(path)

    def replace(self, path: str) -> None:
        """Note that a file or folder is moved to a path."""
        self._write(path, is_new=True)

    def run(self, path: str) -> None:
        """Note that a program is started."""
        found = self.look(path)
        if found and path not in self.ran:
            self.ran.append(path)

    def connect(self, to: str) -> None:
        """Note a connection."""
        if to not in self.connected:
            self.connected.append(to)

    def _write(self, path: str, *, is_new: bool) -> None:
        if path.startswith(_UNSTEADY) or self._is_made(path):
            return
        if is_new or is_missing(answer(path)):
            self._made.add(path)
        else:
            self.written.add(path)

    def _list(self, path: str) -> None:
        number, names = self.listed.get(path) or (0, listing(path))
        self.listed[path] = (number + 1, names)

    def _is_made(self, path: str) -> bool:
        # What lies in a folder that the program made is its own, too.
        while self._made and path != "/":
            if path in self._made:
                return True
            path = os.path.dirname(path)  # noqa: PTH120
        return False


def answer(path: str) -> str:
    """Return what a look at a path finds: nothing (empty), or the kind, the rights and the size of what is there.

    A link is followed, and counts with its text. Times do not count: a file that was only touched is the same.
    """
    try:
        found = os.lstat(path)
        if not stat.S_ISLNK(found.st_mode):
            return _described(found)
        text = os.readlink(path)  # noqa: PTH115 - thousands
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"E{error.errno}"
    try:
        return f"l{text}\0{_described(os.stat(path))}"  # noqa: PTH116 - thousands
    except OSError:
        return f"l{text}\0"


def is_missing(found: str) -> bool:
    """Whether an answer is that there is nothing, or a link to nothing."""
    return not found or found.endswith("\0")


def is_folder(found: str) -> bool:
    """Whether an answer is that there is a folder, or a link to one."""
    return found.rpartition("\0")[2].startswith("d")


def _described(found: os.stat_result) -> str:
    rights = f"{stat.S_IMODE(found.st_mode):o}"
    if stat.S_ISREG(found.st_mode):
        return f"f{rights}:{found.st_size}"
    if stat.S_ISDIR(found.st_mode):
        return f"d{rights}"
    return f"o{stat.S_IFMT(found.st_mode):o}"


def stamp(path: str) -> list[int]:
    """Return size, times and identity of a file; empty if there is none. No program can set the time of a change."""
    try:
        found = os.stat(path)  # noqa: PTH116 - thousands
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def listing(path: str) -> list[str]:
    """Return the names in a folder, each with its kind, without Python's folder of compiled files."""
    try:
        with os.scandir(path) as entries:
            return sorted(f"{each.name}/{_kind(each)}" for each in entries if each.name != "__pycache__")
    except OSError as error:
        return [f"/E{error.errno}"]


def _kind(entry: "os.DirEntry[str]") -> str:
    if entry.is_symlink():
        return "l"
    if entry.is_dir(follow_symlinks=False):
        return "d"
    return "f"
