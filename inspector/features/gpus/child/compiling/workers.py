"""Run jobs in forked workers on free cores, so that a crash or a hang costs only one job."""

import os
import select
import signal
import struct
import time
from collections.abc import Callable

from msgspec import Struct, field

from ctrace.inspector.capture.core.cores import Cores
from ctrace.inspector.capture.core.forks import end, exit_status, fork

_POLL = 0.05
"""Seconds between two checks of the workers."""
_NEXT = struct.Struct("I")
_MESSAGE = struct.Struct("IIB")
"""A worker's message: process id, job, and whether it is done; shorter than PIPE_BUF, so writes are atomic."""

Work = Callable[[int], None]
Failed = Callable[[int, str], None]


def work_off(jobs: int, work: Work, failed: Failed, cores: Cores, limit: float) -> None:
    """Run `work(number)` for each job number below `jobs`, and wait.

    The first worker uses this process's core. `failed(number, why)` is called in this process for a job whose worker
    crashes or does not finish within `limit` seconds.
    """
    if jobs:
        _Driver(jobs, work, failed, cores, limit).run()


class _Worker(Struct):
    pid: int
    on_core: bool
    """Whether the worker holds a core that must be released."""
    job: int | None = None
    since: float = field(default_factory=time.monotonic)


class _Driver:
    """A queue of jobs for the workers, and a pipe for their messages."""

    def __init__(self, jobs: int, work: Work, failed: Failed, cores: Cores, limit: float) -> None:
        self._undone = set(range(jobs))
        self._work = work
        self._failed = failed
        self._cores = cores
        self._limit = limit
        self._workers: dict[int, _Worker] = {}
        self._reader, self._writer = os.pipe()
        self._queue, filled = os.pipe()
        with os.fdopen(filled, "wb") as file:
            file.write(b"".join(map(_NEXT.pack, range(jobs))))

    def run(self) -> None:
        """Run until every job is done or has failed."""
        try:
            while self._undone:
                self._start_some()
                self._listen(_POLL)
                for worker in list(self._workers.values()):
                    self._look_after(worker)
            for worker in list(self._workers.values()):
                exit_status(worker.pid, block=True)
                del self._workers[worker.pid]
                self._free(worker)
        finally:
            for pid in self._workers:
                end(pid)
            for descriptor in (self._queue, self._reader, self._writer):
                os.close(descriptor)

    def _start_some(self) -> None:
        """Start as many workers as there are free cores and jobs; the first uses the core of this waiting process."""
        while len(self._workers) < len(self._undone):
            has_own = any(not worker.on_core for worker in self._workers.values())
            if has_own and not self._cores.take():
                return
            try:
                pid = fork(self._serve)
            except OSError as error:  # ulimit -u
                if has_own:
                    self._cores.release()
                elif not self._workers:
                    for job in list(self._undone):
                        self._fail(job, f"no process could be started: {error.strerror}")
                return
            self._workers[pid] = _Worker(pid, on_core=has_own)

    def _serve(self) -> None:
        pid = os.getpid()
        while data := os.read(self._queue, _NEXT.size):
            (job,) = _NEXT.unpack(data)
            os.write(self._writer, _MESSAGE.pack(pid, job, False))
            self._work(job)
            os.write(self._writer, _MESSAGE.pack(pid, job, True))

    def _listen(self, seconds: float) -> None:
        while select.select([self._reader], [], [], seconds)[0]:
            seconds = 0
            for pid, job, done in _MESSAGE.iter_unpack(os.read(self._reader, _MESSAGE.size * 256)):
                worker = self._workers[pid]
                worker.job, worker.since = None if done else job, time.monotonic()
                if done:
                    self._undone.discard(job)

    def _look_after(self, worker: _Worker) -> None:
        late = worker.job is not None and time.monotonic() - worker.since > self._limit
        if late:
            os.kill(worker.pid, signal.SIGKILL)
        status = exit_status(worker.pid, block=late)
        if status is None:
            return
        self._listen(0)  # read the worker's last message
        del self._workers[worker.pid]
        self._free(worker)
        if worker.job is not None:
            self._fail(worker.job, f"took more than {self._limit:.0f} s" if late else _how(status))
        elif status != 0 and not self._workers:  # it ended between two jobs
            for job in list(self._undone):
                self._fail(job, _how(status))

    def _fail(self, job: int, why: str) -> None:
        self._undone.discard(job)
        self._failed(job, why)

    def _free(self, worker: _Worker) -> None:
        if worker.on_core:
            self._cores.release()


def _how(status: int) -> str:
    return f"crashed: {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
