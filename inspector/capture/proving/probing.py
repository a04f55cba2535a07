"""Call a subject with odd inputs, each time on a fresh copy."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from ctrace.inspector.capture.calls.ways import Call, Way, gradients
from ctrace.inspector.capture.proving.calls import Rounding, Seen, observe
from ctrace.inspector.capture.proving.effects import seed
from ctrace.inspector.capture.proving.probes import Change, probes, searches, state_probes
from ctrace.inspector.capture.proving.sides import SideWatch
from ctrace.inspector.capture.state.copies import copied
from ctrace.inspector.errors import TargetError
from ctrace.inspector.model.trial import Entry, ProofRequest

_ALIASING = ("one tensor twice", "views of one tensor", "subclass", "noncontiguous")
"""Probes whose inputs lose their form when they are copied."""
_NO_SUCH_FORM = (TargetError, RuntimeError, ValueError, TypeError, NotImplementedError, IndexError, OverflowError)


class Probing:
    """Runs probes: all that fit into the time, or those that a request names."""

    def __init__(self, request: ProofRequest, watch: SideWatch, rounding: Rounding | None = None) -> None:
        self._request = request
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
            with self._watch.during(full):
                backward = self._request.gradients and way.backward()
                yield observe(
                    subject,
                    call,
                    Entry(full),
                    called=called,
                    around=gradients(way),
                    backward=backward,
                    rounding=self._rounding,
                )

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
