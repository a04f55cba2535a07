"""In a terminal, a program reads the keyboard, receives Ctrl-C and stops on Ctrl-Z, as without ctrace."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.places import ROOT

if sys.platform != "linux":
    pytest.skip("looks into /proc", allow_module_level=True)

import pty

BOOT = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app(prog_name='ctrace')"
ASKS = """\
import getpass
print('hello', input('name? '), flush=True)
print('secret', getpass.getpass('word? '), flush=True)
"""
SLEEPS = "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
DEAF = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
STOPS = """\
import signal
signal.signal(signal.SIGCONT, lambda *_: print('again', flush=True))
print('ready', flush=True)
signal.pause()
"""
Step = tuple[bytes, bytes | Callable[[int], None]]


def session(words: list[str], folder: Path, *steps: Step) -> tuple[int, str]:
    """Run ctrace in a terminal: wait for each text, then type something or act on the process."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execv(sys.executable, [sys.executable, "-c", BOOT, *words])
    shown, seen, todo, until = b"", 0, list(steps), time.monotonic() + 100
    while time.monotonic() < until:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 65536)
            except OSError:  # all have closed it
                break
        if todo and todo[0][0] in shown[seen:]:
            seen = len(shown)
            action = todo.pop(0)[1]
            time.sleep(0.3)
            action(pid) if callable(action) else os.write(terminal, action)
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def test_run_reads_the_keyboard(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(ASKS)
    code, shown = session(["run", "p.py"], tmp_path, (b"name? ", b"Ada\n"), (b"word? ", b"xyzzy\n"))
    assert code == 0
    assert "hello Ada" in shown
    assert "secret xyzzy" in shown
    assert shown.count("xyzzy") == 1  # no echo


def test_explain_reads_the_keyboard_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(ASKS + "if 0: torch.compile(len)\n")
    code, shown = session(["explain", "p.py"], tmp_path, (b"name? ", b"Ada\n"), (b"word? ", b"xyzzy\n"))
    assert code == 0
    assert "secret xyzzy" in shown


def test_explain_shows_the_question_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "print('hello', input('name? '), flush=True)\nimport os\nos._exit(5)\nmodel = inputs = None\n"
    )
    code, shown = session(["explain", "m.py"], tmp_path, (b"name? ", b"Ada\n"))
    assert code == 3
    assert "hello Ada" in shown


def test_ctrl_c_reaches_the_program(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(SLEEPS)
    code, shown = session(["run", "p.py"], tmp_path, (b"ready", b"\x03"))
    assert code == 3
    assert "KeyboardInterrupt" in shown
    assert "interrupted" in shown


def test_a_second_ctrl_c_ends_a_program_that_ignores_the_first(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(DEAF + SLEEPS)
    began = time.monotonic()
    code, shown = session(["run", "p.py"], tmp_path, (b"ready", b"\x03"), (b"^C", b"\x03"))
    assert code == 3
    assert "interrupted" in shown
    assert time.monotonic() - began < 40


def test_ctrl_z_stops_all_processes_and_they_continue(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(STOPS)

    def go_on(pid: int) -> None:
        assert _state(pid) == "T"
        os.killpg(pid, signal.SIGCONT)

    # The session leader's group is orphaned, so the kernel ignores Ctrl-Z there, but not SIGSTOP.
    def stop(pid: int) -> None:
        os.killpg(pid, signal.SIGSTOP)
        time.sleep(0.2)
        go_on(pid)

    code, shown = session(["run", "p.py"], tmp_path, (b"ready", stop))
    assert code == 0
    assert "again" in shown


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
