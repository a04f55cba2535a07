"""Start the capturing child process, follow its log as it grows, and find out how it ended."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ctrace.inspector.ended import Failure, FailurePhase
from ctrace.inspector.files import write_text
from ctrace.inspector.leash import Leash
from ctrace.inspector.order import Order
from ctrace.inspector.store import Run

if TYPE_CHECKING:
    from ctrace.inspector.events import Event
    from ctrace.inspector.raw import Raw

_ROOT = Path(__file__).resolve().parents[1]
# In a checkout the packages lie beside `ctrace/`, installed inside it; either way its parent is what Python must know.
HOME = _ROOT if (_ROOT / "ctrace").is_dir() else _ROOT.parent
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from ctrace.inspector.capture.main import main; "
    "sys.path.pop(0); main()"
)
_GRACE_SECONDS = 5.0

Output = int | IO[bytes] | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a capture gave."""

    raw: "Raw"
    seconds: float
    failure: Failure | None


def launch(
    order: Order,
    run: Run,
    *,
    timeout: float | None = None,
    stdout: Output = None,
    stderr: Output = None,
    observe: "Callable[[Event | None], None]" = lambda _event: None,
    leash: Leash | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Outcome:
    """Carry an order out in a child process and read its log while it is written.

    `observe` sees each event, and None while nothing happens. Ctrl-C goes to the program; it has a few seconds to end.
    On a leash the program hears neither Ctrl-C nor the keyboard, and what it started ends with it.
    `meanwhile` is called once the child has started: that imports torch, for seconds.
    """
    is_one_of_several = leash is not None
    leash = leash or Leash()
    leash.began(run)
    write_text(run.order, order.to_json())
    run.log.touch()
    began = time.monotonic()
    # Code for a GPU that is not there is emitted by a program on the CPU, also where there is another GPU.
    hidden = {} if order.gpu is None else {"CUDA_VISIBLE_DEVICES": ""}
    environment = {**os.environ, **leash.environment, **hidden}
    command = [sys.executable, "-c", _BOOT, str(HOME), str(run.order)]
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL if is_one_of_several else None,
        stdout=stdout,
        stderr=stderr,
        env=environment,
        process_group=0 if is_one_of_several and os.name == "posix" else None,
    )
    watch = _Watch(child, None if timeout is None else began + timeout, observe, leash)
    with watch.catching_interrupts():
        meanwhile()
        from ctrace.inspector.raw import Raw
        from ctrace.inspector.reader import follow

        raw = Raw()
        for item in follow(run.log, watch.has_ended):
            observe(raw.add(item))
    if is_one_of_several:
        _end_group(child.pid)
    seconds = time.monotonic() - began
    return Outcome(raw, seconds, raw.failure or _failure(child.returncode, watch, raw, timeout))


class _Watch:
    """Knows whether the child is still running, and ends it when its time is up."""

    def __init__(
        self,
        child: "subprocess.Popen[bytes]",
        deadline: float | None,
        observe: Callable[[None], None],
        leash: Leash,
    ) -> None:
        self._child = child
        self._deadline = deadline
        self._observe = observe
        self._leash = leash
        self.timed_out = False
        self.interrupts = 0

    def has_ended(self) -> bool:
        self._observe(None)
        if not self._leash.holds(self._child.pid) and self._child.poll() is None:
            self._deadline, self.interrupts = 0.0, 1
        if self._deadline is not None and time.monotonic() > self._deadline and self._child.poll() is None:
            self.timed_out = self.timed_out or self.interrupts == 0
            self._child.kill()
            self._child.wait()
        return self._child.poll() is not None

    @contextmanager
    def catching_interrupts(self) -> Iterator[None]:
        """Ctrl-C reaches the program too; let it end by itself, but not for ever and not a second time."""

        def interrupted(_number: int, _frame: object) -> None:
            self.interrupts += 1
            self._deadline = time.monotonic() + (_GRACE_SECONDS if self.interrupts == 1 else 0.0)

        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGINT, interrupted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _end_group(leader: int) -> None:
    """Kill what a program left running that it had started, such as workers that load data."""
    if os.name == "posix":
        # As a rule nothing is left; macOS may say so with PermissionError.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _failure(status: int, watch: _Watch, raw: "Raw", timeout: float | None) -> Failure | None:
    if watch.timed_out:
        return Failure(FailurePhase.TIMEOUT, "Timeout", f"the program was still running after {timeout:g} s")
    if watch.interrupts:
        return Failure(FailurePhase.INTERRUPT, "KeyboardInterrupt", "interrupted")
    if status < 0:
        return Failure(FailurePhase.CRASH, _signal_name(-status), _crash_message(-status))
    if not raw.ended:
        how = f"the program left Python without cleaning up, with exit code {status} (os._exit?)"
        return Failure(FailurePhase.CRASH, "Exit", how)
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _crash_message(number: int) -> str:
    name = _signal_name(number)
    if number == signal.SIGKILL:
        return f"the program was killed by {name}; the system does so when memory runs out"
    return f"the program crashed with {name}"
