"""Call a subject with odd inputs and after odd steps, each time on a fresh copy.

A call that takes too long is ended, because odd inputs may send a loop round for ever.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.calls.ways import Call, Way, gradients
from ctrace.inspector.capture.comparing.state_copies import copied
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.isolation.random_states import RandomStates, seed
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.trial import ATTRIBUTE, NEEDED, ON, OTHERS_IN_FLOAT64, Entry, ProofRequest
from ctrace.inspector.features.fix.child.argument_probes import (
    SPARSE,
    broadcast,
    emptied,
    many,
    other_dtypes,
    other_kinds,
    other_shapes,
    others_alone,
    refusal,
    spelled_out,
)
from ctrace.inspector.features.fix.child.both_sides import SideWatch
from ctrace.inspector.features.fix.child.digests import without_addresses
from ctrace.inspector.features.fix.child.observed_calls import Rounding, SeenCall, observe
from ctrace.inspector.features.fix.child.observed_effects import Outside, noting_effects
from ctrace.inspector.features.fix.child.observers import Observer, observers, penalties, redrawn
from ctrace.inspector.features.fix.child.probes import further, mined, probes, searches

_KEEPING = (
    "one tensor twice",
    "views of one tensor",
    "subclass",
    "noncontiguous",
    "expanded",
    "overlapping",
    "computed inputs",
)
"""Probes whose inputs lose their form when they are copied."""
_FORMS = (
    *("float16", "bfloat16", "float64", "requires_grad", "integer inputs", "fractional inputs"),
    *("batch 1", "empty batch", "empty rows"),
)
"""Probes that change how values are stored, or how many, which are repeated with values that take the other side of a
condition."""
_SHORTEST = "model in bfloat16"
"""The observer with the fewest digits, which is repeated with many elements: counts and sums of them are rounded."""
_FEW_ELEMENTS = ("batch 1", "all of size 1", "no dimensions")
"""Inputs of which a sum or `squeeze()` leaves a tensor without dimensions, whose dtype counts less beside others."""
_OTHER_VALUES = ("negated", "positive", "small", "shifted up", "one value", "random 1", "random 2", "random 3")
"""Inputs beside tensors of float64: of one product, about two in five are rounded otherwise in float32."""
_LEAST_SECONDS = 5.0
"""A probe may take this long, however short the scenarios: a first call may import something."""
_LEAST_SECONDS_COMPILED = 60.0
"""A compiled probe is compiled first."""
_TIMES_AS_LONG = 20.0
"""A probe may take this many times the slowest scenario; some make sizes or loops larger."""
_AGAIN = 3.0
"""What ended in one run may take this many times as long in the next: one that ends just in time must not decide."""
_WITH_REFERENCES = 12.0
"""A call whose results may have to be computed in other precisions may take this many times as long: it is made three
times more then, in modes that make each operation several times as slow."""
_WAITS = 5.0
"""By the clock, a call may take this many times its processor time: it may wait, and a busy machine is no reason."""
_MOST_UNENDED = 4
"""Probes that may run into the limit before a subject is left: a loop that does not end with one odd input seldom
ends with others."""
_MOST_FOLLOWED = 10
"""Calls that raise and are followed by another one on the same subject."""
_MOST_CROSSED = 200
"""Observers that are repeated for each side of a condition that they missed, to bound the time."""
_REDRAWN = range(1, 4)
"""Other random numbers that each subject which draws is called with: both sides of a fair draw in 15 of 16 cases."""
_SEARCHED = range(4, 36)
"""More of them, for a side that no call has reached yet: one that is drawn once in ten is then missed once in 30."""
_TIMED_SECONDS = 0.04
"""Calls are repeated for so long, in seconds: the fastest of many short ones is no accident."""
_LEAST_TIMED = 5
"""Calls that are timed at least, however long one takes."""
_MOST_TIMED = 6
"""Inputs with which a call is timed: the scenarios, and one for each side of a condition."""
_EXTREMES = ("small", "large")
"""Inputs for which a loop may end at once that goes on for long with a scenario's: a loop of a fixed number of rounds
makes all of them."""
_NO_SUCH_FORM = (TargetError, RuntimeError, ValueError, TypeError, NotImplementedError, IndexError, OverflowError)


class Probing:
    """Runs probes: all that fit into the time, or those that a request names."""

    def __init__(
        self, request: ProofRequest, watch: SideWatch, rounding: Rounding | None = None, slowest: float = 0.0
    ) -> None:
        """Run the probes of a request; `slowest` is the processor time of the slowest scenario, in seconds."""
        self._request = request
        self._limit = limit_of(request, slowest)
        self.unended: set[str] = set()
        """The calls that were ended: they show nothing, and would take three times as long in each later run."""
        self._followed = 0
        self._watch = watch
        self._rounding = rounding
        self._draws = False
        """Whether a call has drawn random numbers."""
        self._ends = time.thread_time() + request.seconds
        self._kinds = frozenset(other_kinds(spelled_out(None)))
        self._other_forms = self._kinds | frozenset(other_shapes())
        self._of_one_tensor = frozenset((*emptied(), *broadcast()))
        self.run_names: list[str] = []
        self.left_out = ""
        self._outside = Outside(request.values)

    def ended_names(self) -> list[str]:
        """Return the probes that a later run repeats."""
        return [each for each in self.run_names if each not in self.unended]

    def run(self, subject_name: str, fresh: Callable[[], Any], way: Way) -> Iterator[SeenCall]:
        """Call a fresh subject once for each probe."""
        asked = self._request.probes
        named = {**mined(self._request.mined.numbers), **further(self._request.mined.further)}
        # Searches are dear, and only run while a condition has a side that no call has reached.
        more = {name for name in {**searches(), **redrawn(_SEARCHED)} if name not in named}
        for name, observer in self._observers(fresh()).items():
            full = f"{subject_name}, {name}"
            # Processor time, so that a busy machine does not leave more out than an idle one.
            is_late = asked is None and time.thread_time() > self._ends
            if asked is None and name in more and (is_late or not self._watch.missing()):
                continue
            # Where nothing draws, other random numbers make the same call once more.
            if asked is None and observer.draws and not self._draws:
                continue
            if is_late:
                self.left_out = f"probes took longer than {self._request.seconds:g} s of processor time"
                return
            if asked is not None and full not in asked:
                continue
            yield from self._probe(observer, full, fresh, way)
            if self._outside.deed:
                self.left_out = f"a call with odd inputs would {self._outside.deed}"
                return
            if len(self.unended) >= _MOST_UNENDED and asked is None:
                self.left_out = f"{len(self.unended)} calls with odd inputs did not end within {self._limit:g} s"
                return
        if asked is None:
            yield from self._other_sides(subject_name, fresh, way)

    def _other_sides(self, subject_name: str, fresh: Callable[[], Any], way: Way) -> Iterator[SeenCall]:
        """Repeat what was done with the model with inputs that take the other side of a condition.

        A frozen parameter shows only where the side that uses it, or the one that does not, is taken. A side that is
        drawn is the same one in all calls with the same numbers: each of them is repeated with numbers that draw the
        other one.
        """
        known = self._observers(fresh())
        ran = {each.removeprefix(f"{subject_name}, ") for each in self.run_names}
        # Where the model or the call has no such form, it has none with other values either.
        for missed, inputs in self._missed(subject_name, {name: each for name, each in known.items() if name in ran}):
            if time.thread_time() > self._ends:
                self.left_out = f"probes took longer than {self._request.seconds:g} s of processor time"
                return
            name = f"{missed}{ON}{inputs}"
            if f"{subject_name}, {name}" not in self.run_names:
                yield from self._probe(_crossed(known[missed], known[inputs]), f"{subject_name}, {name}", fresh, way)

    def _missed(self, subject_name: str, known: dict[str, Observer]) -> Iterator[tuple[str, str]]:
        """Yield observers that missed a side of a condition, and the inputs that reach that side."""
        for sides in self._watch.result():
            if not sides.condition.expression:
                continue
            for reached, other in ((sides.true, sides.false), (sides.false, sides.true)):
                # The condition of a loop is mostly true and then false in one call: what counts is no round at all.
                alone = [each for each in reached if each not in other] or reached
                names = [each.removeprefix(f"{subject_name}, ") for each in alone]
                # The scenario itself takes this side, and all observers were run with its inputs.
                if subject_name in names:
                    continue
                drawn = next((name for name in names if name in known and known[name].draws), "")
                if drawn:
                    missed = [name for name, each in known.items() if name not in names and not each.draws]
                    yield from ((name, drawn) for name in missed if name not in searches())
                    continue
                inputs = next((name for name in names if name in known and self._is_usual(known[name], name)), "")
                if inputs:
                    missed = [name for name, each in known.items() if each.is_crossed and name not in names]
                    yield from ((name, inputs) for name in missed[:_MOST_CROSSED])

    def _is_usual(self, observer: Observer, name: str) -> bool:
        """Whether a probe changes the inputs alone, and nothing of their kind."""
        return not observer.is_of_model and name not in self._kinds

    def _observers(self, subject: Any) -> dict[str, Observer]:
        """Return all probes by name, those last that search for a side that no other reached."""
        spelled = spelled_out(subject)
        changes = {**probes(spelled), **mined(self._request.mined.numbers, spelled)}
        found = {
            name: Observer(change=change, keeps=name in _KEEPING, is_crossed=name in _FORMS)
            for name, change in changes.items()
        }
        found |= observers(subject, self._request.mined) | redrawn((*_REDRAWN, *_SEARCHED))
        found |= penalties() if self._request.gradients else {}
        more = further(self._request.mined.further, spelled)
        others = {**more, **other_shapes(), **other_dtypes(subject), **others_alone(spelled)}
        others |= {**other_kinds(spelled), **searches(spelled)}
        # Not sparse ones: most ops of a side take these, and torch.where does not, whatever the model is for.
        repeated = {name for name in (*other_kinds(spelled), *other_shapes()) if not name.endswith(SPARSE)}
        found |= {
            name: Observer(change=change, is_crossed=name in repeated)
            for name, change in others.items()
            if name not in found
        }
        # A side that needs the tensor raises in both programs; only inputs of the other side tell them apart.
        for name, change in {**emptied(), **broadcast()}.items():
            found[name] = Observer(change=change, is_crossed=True)
        if _SHORTEST in found:  # a function has no precision
            beside = {name: Observer(change=change) for name, change in many().items()}
            beside |= {name: found[name] for name in _FEW_ELEMENTS}
            beside |= {name: each for name, each in found.items() if name.startswith(ATTRIBUTE)}
            found |= {f"{_SHORTEST}{ON}{name}": _crossed(found[_SHORTEST], each) for name, each in beside.items()}
        if OTHERS_IN_FLOAT64 in found:
            found |= {
                f"{OTHERS_IN_FLOAT64}{ON}{name}": _crossed(found[OTHERS_IN_FLOAT64], found[name])
                for name in _OTHER_VALUES
            }
        # A later run repeats what an earlier one made up, although its own conditions may not ask for it.
        for full in self._request.probes or ():
            name = full.rpartition(", ")[2]
            missed, _, inputs = name.rpartition(ON)
            if missed in found and inputs in found:
                found[name] = _crossed(found[missed], found[inputs])
        return found

    def _probe(self, observer: Observer, full: str, fresh: Callable[[], Any], way: Way) -> Iterator[SeenCall]:
        seed()
        try:
            call = _changed(observer, way)
        except _NO_SUCH_FORM:
            return  # these inputs have no such form
        # Again: making the inputs may have drawn, and what a repair changes there must not shift later numbers.
        seed()
        try:
            with noting_effects():
                subject = observer.prepare(fresh())
        except TargetError:
            return  # this subject has no such form
        except Exception as error:
            self.run_names.append(full)
            raised = f"before the call: {without_addresses(kind_and_message(error))}"
            yield SeenCall(Entry(full, raised=raised))
            return
        self.run_names.append(full)
        called = callable_of(subject, self._request, keeps=full in self._request.kept)
        seed(observer.draws)
        states = RandomStates()
        seen = self._observed(subject, call, full, _in_sequence(observer, subject, called), way)
        what, beside, _ = full.rpartition(", ")[2].partition(ON)
        raised = seen.entry.raised
        if what in self._kinds:
            raised = refusal(raised)
        if what in self._of_one_tensor or (beside and what in self._other_forms):
            # Which op refuses an empty tensor, or one that does not fit, first is no matter, as long as one does.
            raised = raised.partition(":")[0]
        seen = replace(seen, entry=replace(seen.entry, raised=raised))
        self._draws = self._draws or bool(states.moved())
        yield seen
        if seen.entry.raised and self._followed < _MOST_FOLLOWED and not seen.entry.unended:
            self._followed += 1
            seed(observer.draws)
            yield self._observed(subject, way.make(), full, called, way, number=1)

    def _observed(self, subject: Any, call: Call, name: str, called: Any, way: Way, *, number: int = 0) -> SeenCall:
        """Observe one call of a probe; end it if it takes too long."""
        try:
            with ending_after(self._limit), self._outside.refused():
                return observe(
                    subject,
                    call,
                    Entry(name, number),
                    called=called,
                    around=gradients(way),
                    running=partial(self._watch.during, name),
                    backward=self._request.gradients and way.backward(),
                    rounding=self._rounding,
                    notes_needed=name.rpartition(", ")[2].partition(ON)[0] == NEEDED,
                )
        except CallTooLongError:
            self.unended.add(name)
            return SeenCall(Entry(name, number, unended=self._limit))

    # Times

    def times(self, subject_name: str, fresh: Callable[[], Any], ways: dict[str, Way]) -> Iterator[tuple[str, float]]:
        """Time calls in eager: each scenario, and a probe for each side of a condition; or those that are asked for.

        `ways` are the scenarios, the first of which is the one that probes change.
        """
        asked = self._request.timed
        if asked == ():
            return  # before the subject is copied and all its probes are made
        first = next(iter(ways.values()))
        known = {f"{subject_name}, {name}": each for name, each in self._observers(fresh()).items()}
        if asked is None:
            extremes = (f"{subject_name}, {name}" for name in _EXTREMES if f"{subject_name}, {name}" in self.run_names)
            names = [*[*ways, *self._one_for_each_side()][:_MOST_TIMED], *extremes]
        else:
            names = list(asked)
        for name in dict.fromkeys(names):
            observer = known.get(name, Observer())
            try:
                seed()
                call = _changed(observer, ways.get(name, first))
                subject = observer.prepare(fresh())
                seed(observer.draws)
                with (
                    noting_effects(),
                    ending_after(self._limit),
                    self._outside.refused(),
                    gradients(ways.get(name, first)),
                ):
                    seconds = _fastest(_in_sequence(observer, subject, subject), call)
            except Exception:
                continue  # a call that raises has no time
            yield name, seconds

    def _one_for_each_side(self) -> Iterator[str]:
        for sides in self._watch.result():
            yield from (*sides.true[:1], *sides.false[:1])


def _crossed(observer: Observer, inputs: Observer) -> Observer:
    """Return the observer that changes the model and the inputs as both do, the calls as `observer` does."""
    return Observer(
        lambda subject: observer.prepare(inputs.prepare(subject)),
        lambda call: observer.change(inputs.change(call)),
        observer.sequence,
        keeps=inputs.keeps,
        draws=inputs.draws,
    )


def _changed(observer: Observer, way: Way) -> Call:
    """Return the arguments of a probe."""
    changed = observer.change(way.make())
    return changed if observer.keeps else copied(changed)


def _in_sequence(observer: Observer, subject: Any, called: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: observer.sequence(subject, called, Call(args, kwargs))


def _fastest(called: Callable[..., Any], call: Call) -> float:
    """Return the seconds of the fastest of several calls."""
    found: list[float] = []
    began = time.perf_counter()
    while len(found) < _LEAST_TIMED or time.perf_counter() - began < _TIMED_SECONDS:
        start = time.perf_counter()
        called(*call.args, **call.kwargs)
        found.append(time.perf_counter() - start)
        if sum(found) > 10 * _TIMED_SECONDS:
            break
    return min(found)


def callable_of(subject: Any, request: ProofRequest, *, keeps: bool = False) -> Any:
    """Return what to call: the subject, or its compiled form with a backend that runs graphs as captured.

    It compiles again unless it `keeps` what earlier calls compiled.
    """
    if not request.compiled:
        return subject
    import torch

    if not keeps:
        # Otherwise a call could run what was compiled for another copy of the model.
        torch._dynamo.reset()
    return torch.compile(subject, backend="eager")


_REPEAT_SECONDS = 1.0
"""How often a limit that was missed or caught is looked at again."""


def limit_of(request: ProofRequest, slowest: float) -> float:
    """Return how much processor time a probe may take, in seconds; `slowest` is that of the slowest scenario."""
    least = _LEAST_SECONDS_COMPILED if request.compiled else _LEAST_SECONDS
    limit = max(least, _TIMES_AS_LONG * slowest)
    if request.compiled:
        return limit
    if request.against:
        return limit * _WITH_REFERENCES
    return limit * _AGAIN if request.probes is not None else limit


class CallTooLongError(BaseException):
    """A call took too long; no `except Exception` of the program catches it."""


@contextmanager
def ending_after(seconds: float) -> Iterator[None]:
    """Raise in the block after so much processor time, where the system has timers that send a signal (not on Windows).

    A call that waits, such as one that sleeps, is ended by the clock, later. The signal comes again each second: a bare
    `except` of the program may catch one. A single call into C++ that never returns is not interrupted; the time limit
    of the whole process ends it.

    Raises:
        CallTooLongError: the block took too long.
    """
    # Python delivers signals to the main thread only, and only that may set a handler.
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    is_active = True
    worked, began = time.thread_time(), time.monotonic()

    def end(_number: int, _frame: FrameType | None) -> None:
        is_late = time.thread_time() - worked >= seconds or time.monotonic() - began >= seconds * _WAITS
        if is_active and is_late:
            raise CallTooLongError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_SECONDS)
    try:
        yield
    finally:
        # A signal may already be on its way when the timer stops.
        is_active = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
