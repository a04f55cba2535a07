"""Evaluate conditions where their line runs, and note in which calls each was true and false."""

import linecache
import os
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.errors import telling_line
from ctrace.inspector.facts.trial import Condition, Sides

_HEADERS = re.compile(r"(raise|assert|return|if|elif|else|for|while|with|try|except|finally|def|class|@)\b")
_INNER = ("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>")
"""Frames that cannot read the variables of their line."""


class SideWatch:
    """Watches lines with `sys.settrace`; the program's own files stay as they are."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._at: dict[tuple[str, int], list[tuple[Condition, CodeType | None]]] = {}
        self._seen: dict[Condition, dict[bool, dict[str, None]]] = {each: {True: {}, False: {}} for each in conditions}
        self._failed: dict[Condition, str] = {}
        self._files = {os.path.realpath(each.file) for each in conditions}
        self._real: dict[str, str] = {}
        self._others: set[str] = set()
        """Files without a condition, as code names them: every call of a function in them is traced, too."""
        self._constructed: dict[str, list[Condition]] = {}
        self._busy = False
        self._entry = ""
        for each in conditions:
            if each.constructed:
                self._constructed.setdefault(each.constructed, []).append(each)
            place = os.path.realpath(each.file), each.line
            self._at.setdefault(place, []).append((each, self._compiled(each)))

    def _compiled(self, condition: Condition) -> CodeType | None:
        if not condition.expression:
            return None
        try:
            return compile(condition.expression.strip(), "<condition>", "eval", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            self._failed[condition] = str(error)
            return None

    def result(self) -> tuple[Sides, ...]:
        """Return the sides that calls reached, for each condition."""
        return tuple(
            Sides(each, tuple(seen[True]), tuple(seen[False]), self._failed.get(each, ""))
            for each, seen in self._seen.items()
        )

    def missing(self) -> bool:
        """Whether a condition has a side that no call has reached."""
        return any(
            not (seen[True] and (seen[False] or not each.expression))
            for each, seen in self._seen.items()
            if each not in self._failed and not each.is_part
        )

    @contextmanager
    def during(self, entry: str) -> Iterator[None]:
        """Watch the block, a call of this name."""
        # Tracing slows each line of the program, so it is only on where something is watched.
        if not self._at:
            yield
            return
        self._entry = entry
        # A debugger or a coverage tool may trace already, and goes on after the block.
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        file = frame.f_code.co_filename
        # What an evaluated condition calls is no part of the program's run.
        if file in self._others or self._busy:
            return None
        real = self._real.get(file)
        if real is None:
            real = os.path.realpath(file)
            if real not in self._files:
                self._others.add(file)
                return None
            self._real[file] = real
        self._note_class(frame)
        if frame.f_code.co_name in _INNER:
            return None

        begun: list[Condition] = []
        """Lines that run now: one that raises has stored nothing, so the next event decides."""

        def local(frame: FrameType, event: str, _argument: Any) -> Any:
            if self._busy:
                return local
            # The line before this event has ended without an exception, so what it stores is stored.
            if event != "exception":
                for condition in begun:
                    self._seen[condition][True][self._entry] = None
            begun.clear()
            if event == "line":
                begun.extend(self._line(frame, self._at.get((real, frame.f_lineno), ())))
            return local

        return local

    def _line(self, frame: FrameType, here: Iterable[tuple[Condition, CodeType | None]]) -> Iterator[Condition]:
        """Note what holds where a line begins; yield the conditions that are met once it has ended."""
        for condition, code in here:
            if code is not None:
                self._look(condition, code, frame)
            elif not condition.expression and _stores(frame):
                yield condition
            elif not condition.expression:
                self._seen[condition][True][self._entry] = None

    def _note_class(self, frame: FrameType) -> None:
        """Note the constructors that made the object whose method begins: they ran before anybody watched."""
        if not self._constructed:
            return
        for each in type(frame.f_locals.get("self")).__mro__:
            if each.__module__ == frame.f_globals.get("__name__"):
                for condition in self._constructed.get(each.__qualname__.rpartition(".")[2], ()):
                    self._seen[condition][True][self._entry] = None

    def _look(self, condition: Condition, code: CodeType, frame: FrameType) -> None:
        import torch

        if condition in self._failed:
            return
        self._busy = True
        stdout, stderr = sys.stdout, sys.stderr
        # A condition that draws sees the number that the call sees.
        torch_state = torch.get_rng_state()
        python_state = random.getstate()
        try:
            with unnoticed(), torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # A copy, because an assignment in the condition must not become one of the program.
                side = bool(eval(code, frame.f_globals, dict(frame.f_locals)))
            self._seen[condition][side][self._entry] = None
        except Exception as error:
            self._note(condition, error)
        finally:
            torch.set_rng_state(torch_state)
            random.setstate(python_state)
            # What the condition calls may have put another stream there.
            sys.stdout, sys.stderr = stdout, stderr
            self._busy = False

    def _note(self, condition: Condition, error: Exception) -> None:
        """Keep the error of a scenario; an odd probe may make the model itself raise there."""
        seen = self._seen[condition]
        # Only errors that say that the condition itself cannot be read there.
        if not seen[True] and not seen[False] and isinstance(error, NameError | AttributeError | SyntaxError):
            self._failed[condition] = telling_line(kind_and_message(error))


def _stores(frame: FrameType) -> bool:
    """Whether a line is a statement that has an effect only if it completes, unlike `raise`, `return` or a header."""
    first = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return _HEADERS.match(first) is None
