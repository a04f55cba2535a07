"""What the kernel reports of a program: files, folders, links, programs and connections, of any code and any process."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.processes import system_calls
from ctrace.inspector.processes.spawned import started
from ctrace.inspector.processes.system_calls import (
    NotObservableError,
    Questions,
    answer,
    is_folder,
    is_missing,
    listing,
)
from tests.support.observing import observable
from tests.support.places import ROOT

BEGIN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from ctrace.inspector.processes.system_calls import begin
begin(int(sys.argv.pop().removeprefix("observed=")))
"""
PROGRAM = """
import ctypes, glob, os, shutil, socket, subprocess, tempfile, threading
from pathlib import Path
libc = ctypes.CDLL(None)
os.path.exists("missing")
Path("read").read_text()
libc.access(b"native", 0)
libc.open(b"native-read", 0)
glob.glob("folder/*")
os.readlink("link")
thread = threading.Thread(target=os.path.exists, args=("thread",))
thread.start(); thread.join()
if not os.fork():
    os.path.exists("forked")
    os._exit(0)
os.wait()
os.stat("relative", dir_fd=os.open("folder", os.O_RDONLY)) if os.path.exists("folder/relative") else None
os.access("folder/../up", os.R_OK)
os.mkdir("made"); Path("made/inside").write_text("x"); Path("made/inside").read_text()
Path("new").write_text("x"); Path("new").read_text()
with open("appended", "a") as file: file.write("x")
Path("appended").read_text()
os.rename("old", "moved")
with tempfile.TemporaryDirectory(dir=".") as folder: Path(folder, "x").touch()
subprocess.run(["true"], check=True)
try: socket.create_connection(("127.0.0.1", 1))
except OSError: pass
subprocess.run(["cat", "by-process"], check=True, stdout=subprocess.DEVNULL)
"""


def observed(code: str, folder: Path) -> dict[str, Any]:
    """Run a program in a folder, and return what was seen of it."""
    program = BEGIN + f"import os\nos.chdir({str(folder)!r})\n" + code
    process = started([sys.executable, "-c", program], dict(os.environ), subprocess.DEVNULL, None, observes=True)
    assert process.poll(60) == 0
    process.finish()
    found: dict[str, Any] = json.loads(process.observed)
    return found


@observable
def test_every_question_is_seen_with_its_answer(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    for name in ("read", "native-read", "appended", "old", "by-process", "up"):
        (folder / name).write_text("text")
        (folder / name).chmod(0o644)
    (folder / "folder").mkdir(mode=0o755)
    (folder / "link").symlink_to("read")
    before = listing(str(folder / "folder"))
    found = observed(PROGRAM, folder)
    assert found["hidden"] == ""
    own = f"{folder}/"
    looked = {path.removeprefix(own): told for path, told in found["looked"].items() if path.startswith(own)}
    temporary = {name for name in looked if name.startswith("tmp")}
    assert {looked.pop(name) for name in temporary} == {""}, "it was not there before"
    assert looked == {
        **dict.fromkeys(("missing", "native", "thread", "forked", "folder/relative", "made"), ""),
        **dict.fromkeys(("read", "native-read", "by-process", "up", "old"), "f644:4"),
        "appended": "f644:5",
        "folder": "d755",
        "link": "lread\0f644:4",
    }
    assert {path.removeprefix(own) for path in found["read"] if path.startswith(own)} == {
        "read", "native-read", "by-process", "appended",
    }  # fmt: skip
    assert found["listed"][str(folder / "folder")][1] == before
    assert [path for path in found["written"] if path.startswith(own)] == [f"{own}appended"]
    assert {Path(each).name for each in found["ran"]} == {"true", "cat"}
    assert found["connected"] == ["the internet"]


@observable
def test_a_program_runs_as_without_it(tmp_path: Path) -> None:
    code = """
import os, signal, subprocess, threading
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
threads = [threading.Thread(target=lambda: [os.path.exists(f"x{each}") for each in range(300)]) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
signal.setitimer(signal.ITIMER_REAL, 0)
assert subprocess.run(["sh", "-c", "echo hello; exit 3"], capture_output=True).returncode == 3
try: open("nothing")
except FileNotFoundError: pass
else: raise SystemExit(1)
"""
    assert len([path for path in observed(code, tmp_path)["looked"] if "/x" in path]) >= 300


@observable
def test_what_is_asked_after_the_end_does_not_count(tmp_path: Path) -> None:
    code = "from ctrace.inspector.processes.system_calls import end\nos.path.exists('a'); end(); os.path.exists('b')"
    assert {Path(path).name for path in observed(code, tmp_path)["looked"]}.intersection("ab") == {"a"}


@observable
def test_a_program_that_is_killed_leaves_what_it_asked(tmp_path: Path) -> None:
    process = started(
        [sys.executable, "-c", BEGIN + "import os; os.path.exists('/asked'); os.kill(os.getpid(), 9)"],
        dict(os.environ), None, None, observes=True,
    )  # fmt: skip
    assert process.poll(60) == -9
    process.finish()
    assert json.loads(process.observed)["looked"]["/asked"] == ""


@observable
def test_a_program_that_never_begins_is_not_known() -> None:
    process = started([sys.executable, "-c", "pass"], dict(os.environ), None, None, observes=True)
    assert process.poll(60) == 0
    process.finish()
    assert "before it was observed" in json.loads(process.observed)["hidden"]


FORBID = f"""
import ctypes, errno, sys
sys.path.insert(0, {str(ROOT)!r})
from ctrace.inspector.processes import system_calls as calls
machine, libc = calls._machine(), ctypes.CDLL(None)
code = b"".join([
    calls._instruction(calls._LOAD, calls._AT_NUMBER),
    calls._instruction(calls._JUMP_IF_EQUAL, machine.seccomp, 0, 1),
    calls._instruction(calls._RETURN, 0x50000 | errno.EPERM),
    calls._instruction(calls._RETURN, calls._ALLOW),
])
libc.prctl(38, 1, 0, 0, 0)
program = calls._Program(4, ctypes.addressof(kept := ctypes.create_string_buffer(code, len(code))))
assert libc.syscall(machine.seccomp, calls._SET_FILTER, 0, ctypes.byref(program)) == 0
"""
"""Forbids further filters, as a container may."""


@observable
def test_a_program_runs_where_a_filter_is_forbidden(tmp_path: Path) -> None:
    end = "open('made', 'w').close()"
    process = started(
        [sys.executable, "-c", FORBID + BEGIN + f"import os; os.chdir({str(tmp_path)!r}); {end}"],
        dict(os.environ), None, None, observes=True,
    )  # fmt: skip
    assert process.poll(60) == 0
    process.finish()
    assert json.loads(process.observed)["hidden"] == "seccomp: Operation not permitted"
    assert (tmp_path / "made").exists()


def test_a_system_that_reports_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    with pytest.raises(NotObservableError, match="pdp11"):
        system_calls.install()
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "release", lambda: "4.19.0-5-generic")
    with pytest.raises(NotObservableError, match="too old"):
        system_calls.install()


def test_answers_tell_kinds_apart(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("abc")
    file.chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    assert answer(str(file)) == "f640:3"
    assert answer(str(tmp_path / "link")) == "lfile\0f640:3"
    assert is_missing(answer(str(tmp_path / "dangling")))
    assert is_missing(answer(str(file / "below")))
    assert is_folder(answer(str(tmp_path)))
    os.utime(file, (1, 1))
    assert answer(str(file)) == "f640:3", "a time is no answer"


def test_what_the_program_makes_is_no_question(tmp_path: Path) -> None:
    asked = Questions()
    made = str(tmp_path / "made")
    asked.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    (tmp_path / "made").write_text("x")
    asked.open(made, os.O_RDONLY)
    asked.make(str(tmp_path / "folder"))
    (tmp_path / "folder").mkdir()
    asked.look(str(tmp_path / "folder/inside"))
    assert (asked.read, asked.looked) == ({}, {str(tmp_path / "folder"): ""})
