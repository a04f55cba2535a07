"""Logs and archives made to take memory: each is read, or refused in two lines, in memory that does not follow its size.

`python -m tests.faults --only "hostile sizes"` prints the peak memory of a command for each; `--ctrace` names another
checkout's command to compare with.
"""

import gzip
import hashlib
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import BinaryIO

from tests.faults.study import Bench, Result, Study, Try
from tests.support.places import DATA

LOG = DATA / "print_break.torch.log"
MOST_MEMORY = 1 << 30
"""Peak memory in bytes that any input here may take, in all processes of a command together."""
_SECONDS = 100
_MB = 1_000_000
_BLOCK = 1 << 20
_PREFIX = b"V0102 03:04:05.000006 77 torch/_logging/structured.py:28] "


@dataclass(frozen=True, slots=True)
class Hostile:
    """One input: how to write it, and what a command on it has to say."""

    name: str
    write: Callable[[Path], Path]
    says: str
    words: tuple[str, ...] = ("explain", "--json")
    codes: tuple[int, ...] = (0,)


def _record(event: bytes, payload: bytes | None = None) -> bytes:
    if payload is None:
        return _PREFIX + b"{" + event + b"}\n"
    digest = hashlib.md5(payload, usedforsecurity=False).hexdigest().encode()
    return _PREFIX + b"{" + event + b', "has_payload": "' + digest + b'"}\n\t' + payload.replace(b"\n", b"\n\t") + b"\n"


def _file(
    name: str, blocks: Callable[[], Iterator[bytes]], opened: Callable[[Path], BinaryIO]
) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        with opened(path) as file:
            for block in blocks():
                file.write(block)
        return path

    return write


def _plain(path: Path) -> BinaryIO:
    return path.open("wb")


def _gzip(path: Path) -> BinaryIO:
    return gzip.open(path, "wb", compresslevel=9)  # type: ignore[return-value]


def _zstd(path: Path) -> BinaryIO:
    opened: BinaryIO = importlib.import_module("zstandard").open(path, "wb")
    return opened


def _after_log(fill: bytes, size: int, first: bytes = b"", last: bytes = b"\n") -> Callable[[], Iterator[bytes]]:
    """Yield a whole log, and then so many bytes of something."""

    def blocks() -> Iterator[bytes]:
        yield LOG.read_bytes()
        yield first
        yield from repeat(fill * (_BLOCK // len(fill)), size // _BLOCK)
        yield last
        yield _record(b'"describe_source": {}')

    return blocks


def _records(make: Callable[[int], bytes], number: int) -> Callable[[], Iterator[bytes]]:
    """Yield a whole log, and then so many records."""

    def blocks() -> Iterator[bytes]:
        yield LOG.read_bytes()
        made = map(make, range(number))
        while some := b"".join(islice(made, 10_000)):
            yield some

    return blocks


_PAYLOAD = (
    _PREFIX
    + b'{"inductor_output_code": {}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0, "has_payload": "0"}\n\t'
)


def _zipped(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "logs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("job.log", LOG.read_bytes() + b"x" * 300 * _MB)
    return folder / "logs.zip"


def _tarred(folder: Path) -> Path:
    with tarfile.open(folder / "logs.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("job.log")
        info.size = 300 * _MB
        archive.addfile(info, io.BytesIO(b"\n" * info.size))
    return folder / "logs.tar.gz"


def _nested(folder: Path) -> Path:
    inner = gzip.compress(LOG.read_bytes() + b"x" * 300 * _MB)
    for _ in range(3):
        inner = gzip.compress(inner)
    (folder / "job.log.gz").write_bytes(inner)
    return folder / "job.log.gz"


def _rotated(folder: Path) -> Path:
    shutil.copy(LOG, folder / "job.log")
    _file("job.log.1.gz", _after_log(b"x", 1_000 * _MB), _gzip)(folder)
    return folder


def _of_ranks(folder: Path) -> Path:
    for rank in range(2):
        _file(f"rank_{rank}.log.gz", _after_log(b"x", 500 * _MB, _PAYLOAD), _gzip)(folder)
    return folder


def _json_payload(event: str, payload: object) -> bytes:
    return _record(event.encode(), json.dumps(payload).encode())


_SKIPPED = "CTRACE_MAX_RECORD"
_STOPPED = "CTRACE_MAX_UNPACKED"
_AT = b', "frame_id": 0, "frame_compile_id": 0, "attempt": 0'
INPUTS = (
    Hostile("gzip, 1 GB as a line", _file("a.log.gz", _after_log(b"x", 1_000 * _MB), _gzip), _STOPPED),
    Hostile("gzip, 1 GB as a payload", _file("a.log.gz", _after_log(b"x", 1_000 * _MB, _PAYLOAD), _gzip), _STOPPED),
    Hostile("gzip, 1 GB of empty lines", _file("a.log.gz", _after_log(b"\n", 1_000 * _MB), _gzip), _STOPPED),
    Hostile("gzip, 1 GB of NUL", _file("a.log.gz", _after_log(b"\0", 1_000 * _MB), _gzip), _STOPPED),
    Hostile("zstd, 1 GB as a payload", _file("a.log.zst", _after_log(b"x", 1_000 * _MB, _PAYLOAD), _zstd), _STOPPED),
    Hostile("gzip in gzip in gzip", _nested, "compressed twice", codes=(2,)),
    Hostile("zip", _zipped, "unpack", codes=(2,)),
    Hostile("tar.gz of empty lines", _tarred, "tar archive", codes=(2,)),
    Hostile("a rotated part of 1 GB", _rotated, _STOPPED),
    Hostile("ranks of 500 MB each", _of_ranks, _STOPPED, ("ranks", "--json")),
    Hostile("header line of 500 MB", _file("a.log", _after_log(b"x", 500 * _MB, _PREFIX + b'{"x": "', b'"}\n'), _plain), _SKIPPED),
    Hostile("header line of 500 MB of lists", _file("a.log", _after_log(b"[],", 500 * _MB, _PREFIX + b'{"x": [', b'1]}\n'), _plain), _SKIPPED),
    Hostile("header line of 50 MB of lists", _file("a.log", _after_log(b"[],", 50 * _MB, _PREFIX + b'{"x": [', b'1]}\n'), _plain), _SKIPPED),
    Hostile("payload of 500 MB in short lines", _file("a.log", _after_log(b"x\n\t", 500 * _MB, _PAYLOAD), _plain), _SKIPPED),
    Hostile("payload of 50 MB of lists", _file("a.log", lambda: iter([LOG.read_bytes(), _record(b'"artifact": {"name": "ctrace_ops", "encoding": "json"}' + _AT, b"[" + b"[]," * (17 * _MB) + b"1]")]), _plain), _SKIPPED),
    Hostile("payload of 50 MB nested", _file("a.log", lambda: iter([LOG.read_bytes(), _record(b'"artifact": {"name": "ctrace_ops", "encoding": "json"}' + _AT, b"[" * (50 * _MB))]), _plain), ""),
    Hostile("an integer of 50 million digits", _file("a.log", _after_log(b"9", 50 * _MB, _PREFIX + b'{"dynamo_start": ', b"}\n"), _plain), "cannot be read"),
    Hostile("300,000 unknown kinds", _file("a.log", _records(lambda n: _record(b'"kind_%d": {}' % n), 300_000), _plain), "others"),
    Hostile("20 kinds with names of 5 MB", _file("a.log", _records(lambda n: _record(b'"artifact": {"name": "%s%d"}' % (b"n" * 5 * _MB, n)), 20), _plain), "nnn"),
    Hostile("200,000 odd records", _file("a.log", _records(lambda n: _record(b'"dynamo_start": {"stack": %d}' % n + _AT), 200_000), _plain), "more entries are not as expected"),
    Hostile("300,000 lines that are no records", _file("a.log", _records(lambda n: b"] {%d\n" % n, 300_000), _plain), "more records"),
    Hostile("lone surrogates and NUL in names", _file("a.log", _records(lambda n: _record(b'"str": ["\\ud800\\u0000%d", %d]' % (n, n + 1000)), 200_000), _plain), ""),
)  # fmt: skip


def run(bench: Bench) -> Iterator[Try]:
    """Run a command on each input, and measure the memory of its processes."""
    for each in INPUTS[: bench.tries]:
        folder = bench.scratch / "input"
        folder.mkdir()
        yield _tried(bench, each, each.write(folder))
        shutil.rmtree(folder)


def _tried(bench: Bench, each: Hostile, path: Path) -> Try:
    command, *options = each.words
    began = time.monotonic()
    child = subprocess.Popen(
        [*bench.ctrace, command, str(path), *options],
        cwd=bench.scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    peak, out = _watched(child, began)
    seconds = time.monotonic() - began
    detail = f"{peak >> 20} MiB, {seconds:.0f} s, exit {child.returncode}"
    print(f"       {each.name}: {detail}", file=sys.stderr, flush=True)
    if child.returncode not in each.codes or "Traceback" in out:
        return Try(each.name, Result.CRASH, f"{detail}: {out[-300:]!r}")
    if each.says not in out:
        return Try(each.name, Result.LIE, f"{detail}: nothing says {each.says!r}")
    return Try(each.name, Result.FINE if peak <= MOST_MEMORY else Result.CRASH, detail)


def _watched(child: "subprocess.Popen[bytes]", began: float) -> tuple[int, str]:
    """Return the peak memory of a process and its children, and what it printed; end one that takes too much."""
    assert child.stdout is not None
    out, peak = b"", 0
    os.set_blocking(child.stdout.fileno(), False)
    while child.poll() is None:
        peak = max(peak, sum(map(_memory, _tree(child.pid))))
        out += child.stdout.read() or b""
        if peak > 8 << 30 or time.monotonic() - began > _SECONDS:
            child.kill()
        time.sleep(0.02)
    return peak, (out + (child.stdout.read() or b"")).decode("utf-8", "replace")


def _tree(pid: int) -> list[int]:
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for each in (task / "children").read_text().split():
                found += _tree(int(each))
    except OSError:  # it ended meanwhile
        pass
    return found


def _memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:")), 0)


FAULTS = Study("hostile sizes", len(INPUTS), run)
