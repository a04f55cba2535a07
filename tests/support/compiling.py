"""Logs of compiling, made by hand: begin and end marks of torch's steps, and questions to caches."""

import json
from typing import Any

from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.facts.session import Session
from ctrace.inspector.log.log_line import artifact, record_line
from ctrace.inspector.log.reader import Broken, LogEntry, parse
from ctrace.inspector.session.build import build

AT = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
START = 1_700_000_000_000_000.0


class Log:
    """Lines of a log, with a clock in milliseconds."""

    def __init__(self, *, ours: bool = True) -> None:
        self._lines: list[str] = []
        if ours:
            self.ours(
                "start",
                {"schema": 1, "ctrace": "0.2.0", "python": "3.11", "triton": None, "cwd": "/w", "prefixes": {}},
            )

    def ours(self, name: str, payload: Any, at: dict[str, Any] | None = None) -> "Log":
        record, text = artifact(name, payload, at)
        return self.line(record, text)

    def line(self, record: dict[str, Any], payload: str, thread: int = 1) -> "Log":
        text = record_line(record, payload, "torch/x.py", 1).decode()
        head, _, rest = text.partition("] ")
        stamp, clock, _, source = head.split(" ")
        self._lines.append(f"{stamp} {clock} {thread} {source}] {rest}")
        return self

    def mark(
        self, ph: str, name: str, ms: float, *, thread: int = 1, at: dict[str, Any] | None = AT, **data: Any
    ) -> "Log":
        event = {"name": name, "ph": ph, "ts": START + ms * 1000, "pid": 0, "tid": 0, "args": {}, **data}
        return self.line({"chromium_event": {}, **(at or {})}, json.dumps(event), thread)

    def span(self, name: str, begin: float, end: float, *, thread: int = 1, at: dict[str, Any] | None = AT) -> "Log":
        return self.mark("B", name, begin, thread=thread, at=at).mark("E", name, end, thread=thread, at=at)

    def cache(self, name: str, at: dict[str, Any] | None = AT, **data: Any) -> "Log":
        return self.line({"artifact": {"name": name, "encoding": "json"}, **(at or {})}, json.dumps(data))

    def entries(self) -> list[LogEntry | Broken]:
        text = "".join(self._lines)
        return list(parse(text.splitlines(keepends=True)))

    def session(self) -> Session:
        return build(self.entries(), Target("/w/model.py", "model"), seconds=9.0, unfinished="")

    def text(self) -> str:
        return "".join(self._lines)


def components(**texts: str) -> list[str]:
    """Return lines of a key's components; the digest is made of the text."""
    return [f"[d{abs(hash(text)) % 10**9}] {name}: {text}" for name, text in texts.items()]


def compiled(log: Log, *, graph: dict[str, Any] | None = None, begin: float = 0.0) -> Log:
    """Add a compilation of 100 ms: 10 of Dynamo, 5 of guards, 60 in the backend, 20 of them building, 25 in between."""
    at = graph or AT
    for ph, name, ms in (
        ("B", "dynamo", 0), ("B", "entire_frame_compile", 1), ("B", "compile_attempt_0", 2),
        ("B", "bytecode_tracing", 2), ("E", "bytecode_tracing", 10), ("B", "backend_compile", 10),
        ("B", "create_aot_dispatcher_function", 12), ("B", "compile_fx.<locals>.fw_compiler_base", 20),
        ("B", "inductor_compile", 21), ("B", "GraphLowering.run", 22), ("E", "GraphLowering.run", 30),
        ("B", "Scheduler.codegen", 30), ("E", "Scheduler.codegen", 40), ("B", "async_compile.wait", 40),
        ("E", "async_compile.wait", 60), ("E", "inductor_compile", 65),
        ("E", "compile_fx.<locals>.fw_compiler_base", 66), ("E", "create_aot_dispatcher_function", 70),
        ("E", "backend_compile", 90), ("B", "build_guards", 90), ("E", "build_guards", 95),
        ("E", "compile_attempt_0", 98), ("E", "entire_frame_compile", 99), ("E", "dynamo", 100),
    ):  # fmt: skip
        log.mark(ph, name, begin + ms, at=at)
    return log


def second(number: int) -> dict[str, Any]:
    return {**AT, "frame_id": number}
