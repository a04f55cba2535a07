"""A model's output is marked, repetitions are folded, and torch's warnings are told once."""

import os
import threading
import time

import pytest

from ctrace.cli.progress import ProgramOutput

_HEAD = b"W1126 13:47:31.33%d000 2300 torch/_dynamo/%s] [0/0] "
_ITEM = "variables/tensor.py:1759"


class _Shown:
    def __init__(self, *chunks: bytes, pause: float = 0.0) -> None:
        self.bytes = b""
        self.asked: list[bool] = []
        self._output = ProgramOutput("m.py", self._add, self.asked.append)
        reading, writing = os.pipe()
        pump = threading.Thread(target=self._output.run, args=(reading,))
        pump.start()
        with os.fdopen(writing, "wb", buffering=0) as sink:
            for chunk in chunks:
                sink.write(chunk)
                time.sleep(pause)
        pump.join()
        self.notes = self._output.notes()

    def _add(self, text: bytes) -> None:
        self.bytes += text

    @property
    def lines(self) -> list[str]:
        return self.bytes.decode().splitlines()


def _warning(text: str, number: int = 3, place: str = _ITEM) -> bytes:
    head = _HEAD % (number, place.encode())
    return b"".join(head + line.encode() + b"\n" for line in text.splitlines())


@pytest.fixture(autouse=True)
def _no_torch_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_LOGS", raising=False)


def test_output_has_a_heading_and_marks() -> None:
    assert _Shown(b"one\ntw", b"o\n", b"last").lines == ["output of m.py", "| one", "| two", "| last"]
    assert _Shown().lines == []


def test_what_each_call_prints_again_is_folded() -> None:
    assert _Shown(b"mean 0.5\n" * 4).lines[1:] == ["| mean 0.5", "| (last line, 3 more times)"]
    once = _Shown(b"a\nb\na\nb\nc\n").lines[1:]
    assert once == ["| a", "| b", "| (last 2 lines, once more)", "| c"]


def test_an_equal_line_elsewhere_is_no_repetition() -> None:
    traceback = ["  File a", "    f(x)", "    ^^^^", "  File b", "    g(x)", "    ^^^^", "ValueError"]
    text = "".join(f"{line}\n" for line in traceback).encode()
    assert _Shown(text).lines[1:] == [f"| {line}" for line in traceback]
    assert _Shown(b"a\nb\na\nc\n").lines[1:] == ["| a", "| b", "| a", "| c"]
    assert _Shown(b"a\nb\na\n").lines[1:] == ["| a", "| b", "| a"]


def test_a_warning_that_ctrace_reports_is_one_note() -> None:
    item = _warning("Graph break from `Tensor.item()`, consider setting:\n    x = True\n\n")
    shown = _Shown(b"a\n" + item + b"a\n")
    assert shown.lines == ["output of m.py", "| a", "| (last line, once more)"]
    assert shown.notes == ["torch warned 1 time about a graph break: see ctrace breaks"]
    limit = _warning("torch._dynamo hit config.recompile_limit (8)\n   function: f", place="convert_frame.py:1994")
    assert _Shown(limit).notes == ["torch warned 1 time about the recompile limit: see ctrace recompiles"]


def test_a_python_warning_about_a_break_is_part_of_the_note() -> None:
    untraced = (
        b"/lib/torch/_dynamo/variables/functions.py:2431: UserWarning: Dynamo does not know how to trace the builtin "
        b"`x.f.` This function is a Python builtin.\n"
        b"If it is a Python builtin, please file an issue.\n"
        b"If it is a third-party C/C++ Python extension, please wrap it.\n"
        b"  torch._dynamo.utils.warn_once(explanation)\n"
    )
    shown = _Shown(b"a\n" + untraced + b"b\n  torch._dynamo.utils.warn_once(mine)\n")
    assert shown.lines[1:] == ["| a", "| b", "|   torch._dynamo.utils.warn_once(mine)"]
    assert shown.notes == ["torch warned 1 time about a graph break: see ctrace breaks"]


def test_another_warning_is_shown_once() -> None:
    first, again = (_warning("Profiler function will be ignored\nmore", number) for number in (3, 4))
    shown = _Shown(first + again + _warning("Profiler class will be ignored", 5))
    assert [line[-7:] for line in shown.lines[1:]] == ["ignored", "0] more", "ignored"]
    assert shown.notes == []


def test_a_log_that_the_user_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "+dynamo")
    item = _warning("Graph break from `Tensor.item()`, consider setting:")
    shown = _Shown(item)
    assert shown.bytes == b"output of m.py\n| " + item
    assert shown.notes == []


def test_a_prompt_waits_for_its_answer() -> None:
    shown = _Shown(b"line\nname? ", b"thanks\nbye\n", pause=0.5)
    assert shown.lines == ["output of m.py", "| line", "| name? thanks", "| bye"]
    assert shown.asked == [True, False]


def test_a_line_without_an_end_is_broken_before_it_fills_memory() -> None:
    lines = _Shown(*[b"%d" % each * (1 << 14) for each in range(10, 50)]).lines
    assert lines[0] == "output of m.py"
    assert len(lines) > 10
    assert max(map(len, lines)) < 1 << 18
