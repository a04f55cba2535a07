"""Call a subject with odd inputs, each time on a fresh copy."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from ctrace.inspector.capture.calls.ways import Call, Way, gradients
from ctrace.inspector.capture.proving.calls import Rounding, Seen, observe
from ctrace.inspector.capture.proving.effects import seed
from ctrace.inspector.capture.proving.probes import Change, probes, searches, state_probes
from ctrace.inspector.capture.proving.sides import SideWatch
from ctrace.inspector.capture.proving.time_limit import CallTooLongError, ending_after
from ctrace.inspector.capture.state.copies import copied
from ctrace.inspector.errors import TargetError
from ctrace.inspector.model.trial import Entry, ProofRequest

_ALIASING = ("one tensor twice", "views of one tensor", "subclass", "noncontiguous")
"""Probes whose inputs lose their form when they are copied."""
_LEAST_SECONDS = 5.0
_LEAST_SECONDS_COMPILED = 60.0
_TIMES_AS_LONG = 20.0
"""A probe may take this many times the slowest scenario; some make sizes or loops larger."""
_MOST_UNENDED = 4
_NO_SUCH_FORM = (TargetError, RuntimeError, ValueError, TypeError, NotImplementedError, IndexError, OverflowError)


class Probing:
    """Runs probes: all that fit into the time, or those that a request names."""

    def __init__(
        self, request: ProofRequest, watch: SideWatch, rounding: Rounding | None = None, slowest: float = 0.0
    ) -> None:
        """Run the probes of a request; `slowest` is the time of the slowest scenario, in seconds."""
        self._request = request
        least = _LEAST_SECONDS_COMPILED if request.compiled else _LEAST_SECONDS
        self._limit = max(least, _TIMES_AS_LONG * slowest)
        self._unended = 0
        self._watch = watch
        self._rounding = rounding
        self._changes: dict[str, Change] = {**probes(), **searches()}
        self._of_state = state_probes()
        self._ends = time.monotonic() + request.seconds
        self.run_names: list[str] = []
        self.left_out = ""

    def run(self, subject_name: str, fresh: Callable[[], Any], way: Way) -> Iterator[Seen]:
        """Call a fresh subject once for each probe."""
        asked = self._request.probes
        more = searches()
        for name in self._names():
            is_late = asked is None and time.monotonic() > self._ends
            if asked is None and name in more and (is_late or not self._watch.missing()):
                continue
            if is_late:
                self.left_out = f"probes took longer than {self._request.seconds:g} s"
                return
            if f"{subject_name}, {name}" not in asked if asked is not None else False:
                continue
            subject = fresh()
            call = self._call(name, subject, way)
            if call is None:
                continue
            full = f"{subject_name}, {name}"
            self.run_names.append(full)
            called = callable_of(subject, self._request)
            seed()
            yield self._observed(subject, call, full, called, way)
            if self._unended >= _MOST_UNENDED and asked is None:
                self.left_out = f"{self._unended} calls with odd inputs did not end within {self._limit:g} s"
                return

    def _observed(self, subject: Any, call: Call, name: str, called: Any, way: Way) -> Seen:
        """Observe one probe; end it if it takes too long."""
        try:
            with ending_after(self._limit), self._watch.during(name):
                return observe(
                    subject,
                    call,
                    Entry(name),
                    called=called,
                    around=gradients(way),
                    backward=self._request.gradients and way.backward(),
                    rounding=self._rounding,
                )
        except CallTooLongError:
            self._unended += 1
            return Seen(Entry(name, unended=self._limit))

    def _names(self) -> list[str]:
        return [*probes(), *self._of_state, *searches()]

    def _call(self, name: str, subject: Any, way: Way) -> Call | None:
        """Return the arguments of a probe; None: these inputs have no such form."""
        seed()
        try:
            call = way.make()
            if name in self._of_state:
                return call if self._of_state[name](subject) else None
            changed = self._changes[name](call)
            return changed if name in _ALIASING else copied(changed)
        except _NO_SUCH_FORM:
            return None


def callable_of(subject: Any, request: ProofRequest) -> Any:
    """Return what to call: the subject, or its compiled form with a backend that runs graphs as captured."""
    if not request.compiled:
        return subject
    import torch

    torch._dynamo.reset()
    return torch.compile(subject, backend="eager")
