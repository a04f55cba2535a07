"""Carry out a proof request on a loaded target, and write what it saw.

Of a model file, each scenario is called three times, then fresh copies of the model get odd inputs. Of a program, each
call of a compiled function that it makes is observed, then odd inputs made from the first ones.
"""

import copy
import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from ctrace.inspector.capture.calls.model_files import Loaded
from ctrace.inspector.capture.calls.ways import Call, Way, gradients, training
from ctrace.inspector.capture.comparing.state_copies import copied
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.isolation.random_states import seed
from ctrace.inspector.errors import TargetError, telling_line
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.facts.trial import Entry, Observed, ProofRequest
from ctrace.inspector.features.fix.child.both_sides import SideWatch
from ctrace.inspector.features.fix.child.digests import without_addresses
from ctrace.inspector.features.fix.child.observed_calls import Rounding, SeenCall, observe
from ctrace.inspector.features.fix.child.observed_effects import noting_effects
from ctrace.inspector.features.fix.child.observed_state import StateCheckpoint
from ctrace.inspector.features.fix.child.probing import Probing, callable_of
from ctrace.inspector.files.writing import write_text


def observe_model(loaded: Loaded, request: ProofRequest, *, train: bool) -> None:
    """Observe all calls of a model, and write the result."""
    _use_one_thread()
    # What is loaded stays: without this, collections look for garbage in it at each checkpoint, a fifth of its time.
    gc.collect()
    gc.freeze()
    observer = ModelObserver(loaded, request, train=train)
    with _without_guard_times():
        entries = [each.entry for each in observer.observe()]
    unexplained: tuple[Any, ...] = ()
    compared = 0
    if (rounding := observer.rounding) is not None:
        unexplained, compared = tuple(rounding.unexplained), rounding.compared
    found = Observed(
        tuple(entries),
        observer.watch.result(),
        observer.probed,
        rounding=unexplained,
        compared=compared,
        left_out=observer.left_out,
        uncopied=observer.uncopied,
        times=observer.times,
        compiles=not request.compiled and _has_compiled(),
    )
    write(found, request)


def observe_program(program: Callable[[], None], request: ProofRequest) -> None:
    """Run a program, observe the calls of what it compiles, and write the result."""
    _use_one_thread()
    _import_executors()
    write(ProgramObserver(request).run(program), request)


def _use_one_thread() -> None:
    """Compute in one thread: sums then have one order, and small calls do not wait for other threads."""
    import torch

    torch.set_num_threads(1)


def _import_executors() -> None:
    """Import what registers itself to be called when threads end (concurrent/futures, Python 3.11 to 3.14).

    A program's threads end before the odd inputs of a proof. Python refuses such a registration from then on, and torch
    imports Inductor, which needs these modules, at the first compilation that does (2.11, Python 3.12).
    """
    import concurrent.futures.process
    import concurrent.futures.thread  # noqa: F401


def _has_compiled() -> bool:
    """Whether Dynamo has looked at any frame in this process (`counters["frames"]`, _dynamo/convert_frame.py, 2.13)."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["frames"])


@contextmanager
def _without_guard_times() -> Iterator[None]:
    """Let Dynamo compile without timing its guards: it empties the caches for that, a third of a small compilation.

    The time is only for its metrics (CheckFunctionManager.__init__, _dynamo/guards.py, 2.13), which no proof reads.
    """
    from torch._dynamo import guards

    if not hasattr(guards, "profile_guard_manager"):  # another version of torch
        yield
        return
    with patched(guards, "profile_guard_manager", lambda *_: 0.0):
        yield


def write(found: Observed, request: ProofRequest) -> None:
    """Write the result as JSON, whole or not at all."""
    write_text(Path(request.result), json.encode(found).decode())


TIMES = 3
"""Calls of each scenario: the third shows state that the first two changed."""


class ModelObserver:
    """Calls a model in every way that a proof needs, and yields what it saw."""

    def __init__(self, loaded: Loaded, request: ProofRequest, *, train: bool) -> None:
        import torch

        self._model = loaded.model
        self._ways = loaded.scenarios
        self._request = request
        self._watch = SideWatch(request.conditions)
        self._probed: list[str] = []
        self.rounding = Rounding(request) if request.values or request.against else None
        self.left_out = ""
        self.uncopied = ""
        self.times: tuple[tuple[str, float], ...] = ()
        self._slowest = 0.0
        if train and isinstance(self._model, torch.nn.Module):
            self._model.train()

    @property
    def watch(self) -> SideWatch:
        """The watch over the conditions."""
        return self._watch

    @property
    def probed(self) -> tuple[str, ...]:
        """The probes that were run."""
        return tuple(self._probed)

    def observe(self) -> Iterator[SeenCall]:
        """Call the model in its scenarios, then with probes."""
        # Before the first call, which may leave state: each probe starts from the model as it was loaded.
        pristine = self._pristine()
        for name, way in self._ways.items():
            yield from self._scenario(name, way)
        if not self._request.compiled or self._request.probes:
            yield from self._probes(pristine)

    def _pristine(self) -> Any:
        """Copy the model with its state; None: it cannot be copied."""
        try:
            return copy.deepcopy(self._model)
        except Exception as error:
            self.uncopied = telling_line(kind_and_message(error))
            return None

    def _scenario(self, name: str, way: Way) -> Iterator[SeenCall]:
        called = callable_of(self._model, self._request)
        is_asked = way.kind is not ScenarioKind.PROVOKED
        if self._request.compiled and not is_asked:
            return
        for index in range(TIMES if is_asked else 1):
            seed()  # for inputs that are drawn at random, and again below, for what the call draws
            with ExitStack() as modes:
                try:
                    call = way.make()
                    modes.enter_context(training(self._model, way))
                # These inputs have no such scenario.
                except TargetError:
                    return
                seed()
                entry = Entry(name, index)
                # Of this thread alone: other processes may have the cores, and a limit for probes follows from it.
                began = time.thread_time()
                seen = observe(
                    self._model,
                    call,
                    entry,
                    called=called,
                    around=gradients(way),
                    running=partial(self._watch.during, name),
                    backward=self._request.gradients and way.backward(),
                    rounding=self.rounding,
                )
                self._slowest = max(self._slowest, time.thread_time() - began)
                yield seen

    def _probes(self, pristine: Any) -> Iterator[SeenCall]:
        probing = Probing(self._request, self._watch, self.rounding, self._slowest)
        for name, way in self._probed_ways():
            yield from probing.run(name, partial(self._fresh, pristine, way), way)
        self._probed += probing.ended_names()
        self.left_out = probing.left_out
        if pristine is not None and not self._request.compiled:
            asked = {each: way for each, way in self._ways.items() if way.kind is not ScenarioKind.PROVOKED}
            name, way = next(iter(self._ways.items()))
            times = probing.times(name, partial(self._fresh, pristine, way), asked or {name: way})
            self.times = tuple(times)

    def _fresh(self, pristine: Any, way: Way) -> Any:
        """Return a copy of the model as loaded, in the mode of a scenario; the model itself if none can be made."""
        import torch

        if pristine is None:
            return self._model
        subject = copy.deepcopy(pristine)
        if way.training is not None and isinstance(subject, torch.nn.Module):
            subject.train(way.training)
        return subject

    def _probed_ways(self) -> Iterator[tuple[str, Way]]:
        """Yield the scenarios whose inputs are changed: the first, and those that take a side or pass options as none
        before.

        With the inputs of an encoder, however odd, what only a decoder runs is never run.
        """
        reached: set[tuple[int, bool]] = set()
        passed: set[str] = set()
        for index, (name, way) in enumerate(self._ways.items()):
            # Each side of each condition that a call of this scenario took.
            mine = {
                (number, side)
                for number, sides in enumerate(self._watch.result())
                for side, names in ((True, sides.true), (False, sides.false))
                if name in names
            }
            is_asked = any(each.startswith(f"{name}, ") for each in self._request.probes or ())
            options = ""
            if way.kind is not ScenarioKind.PROVOKED:
                options = _options(way)
            is_new = not mine <= reached or options not in passed
            if index == 0 or is_asked or (way.kind is not ScenarioKind.PROVOKED and is_new):
                yield name, way
            reached |= mine
            passed.add(options)


def _options(way: Way) -> str:
    """Return the words and flags that a scenario passes, as text: they decide what a call does with its tensors."""
    from torch.utils import _pytree

    try:
        call = way.make()
    except TargetError:
        return ""
    leaves = _pytree.tree_flatten_with_path((call.args, call.kwargs))[0]
    return repr([(str(path), leaf) for path, leaf in leaves if isinstance(leaf, str | bool)])


_MOST_CALLS = 30
"""Observed calls of one function; a program may make thousands."""
_MOST_SUBJECTS = 6
"""Functions of a program whose first call is repeated with odd inputs; each takes some hundred calls."""


class _First(Struct, frozen=True):
    """A compiled function as it was before its first call, with the arguments of that call."""

    subject: Any
    call: Call


class ProgramObserver:
    """Runs a program in which `torch.compile` notes the calls of what it compiles."""

    def __init__(self, request: ProofRequest) -> None:
        self._request = request
        self._watch = SideWatch(request.conditions)
        self._entries: list[Entry] = []
        self._first: dict[str, _First | None] = {}
        self._count: dict[str, int] = {}
        self._subjects: dict[str, Any] = {}
        self._is_inside = False

    def run(self, program: Callable[[], None]) -> Observed:
        """Run a program and its probes.

        Raises:
            BaseException: what the program raises to end the process.
        """
        import torch

        # A program may draw before it seeds, and two runs of it are compared.
        seed()
        raised = ""
        with ExitStack() as active:
            if not self._request.compiled:
                active.enter_context(torch.compiler.set_stance("force_eager"))
            # Both: a function is seen where it is compiled, a module where it is called.
            active.enter_context(patched(torch, "compile", self._compile(torch.compile)))
            module = torch._dynamo.eval_frame.OptimizedModule
            active.enter_context(patched(module, "__call__", self._module_call(module.__call__)))
            active.enter_context(noting_effects())
            try:
                program()
            except Exception as error:
                raised = without_addresses(kind_and_message(error))
            except SystemExit as left:  # how many programs end
                raised = f"SystemExit: {left.code}"
        # After the program, since its last calls may have changed what it holds.
        state = [[name, _state(subject)] for name, subject in self._subjects.items()]
        self._entries.append(Entry("program", raised=raised, state=state))
        probing = Probing(self._request, self._watch)
        times: list[tuple[str, float]] = []
        for name, first in self._first.items():
            if first is not None and (not self._request.compiled or self._request.probes):
                way = Way(lambda first=first: copied(first.call))  # type: ignore[misc]
                fresh = functools.partial(_fresh, first.subject)
                self._entries += [seen.entry for seen in probing.run(name, fresh, way)]
                if not self._request.compiled:
                    times += probing.times(name, fresh, {name: way})
        return Observed(
            tuple(self._entries),
            self._watch.result(),
            tuple(probing.ended_names()),
            left_out=probing.left_out,
            times=tuple(times),
        )

    def _compile(self, original: Any) -> Any:
        request = self._request

        @functools.wraps(original)
        def compile_(model: Any = None, **options: Any) -> Any:
            import torch

            # Inductor rounds differently; the proof compares what Dynamo made of the code, whose graphs run eagerly.
            if request.compiled:
                options = {key: value for key, value in options.items() if key in ("dynamic", "fullgraph")}
                options["backend"] = "eager"
            if model is None:  # `@torch.compile(dynamic=True)`
                return lambda function: compile_(function, **options)
            made = original(model, **options)
            # The call of a module is seen by its class, so it must stay a compiled module for the program.
            if isinstance(model, torch.nn.Module):
                return made
            return self._noting(model, made)

        return compile_

    def _noting(self, subject: Any, made: Any) -> Any:
        @functools.wraps(made)
        def noted(*args: Any, **kwargs: Any) -> Any:
            return self._call(subject, made, args, kwargs)

        return noted

    def _module_call(self, original: Any) -> Any:
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            def made(*args: Any, **kwargs: Any) -> Any:
                return original(module, *args, **kwargs)

            return self._call(module._orig_mod, made, args, kwargs)

        return call

    def _call(self, subject: Any, made: Any, args: Any, kwargs: Any) -> Any:
        name = self._name(subject)
        number = self._count.get(name, 0)
        # A compiled function that another one calls is a part of that call.
        if self._is_inside or number >= _MOST_CALLS:
            return made(*args, **kwargs)
        self._count[name] = number + 1
        call = Call(args, kwargs)
        if number == 0 and len(self._first) < _MOST_SUBJECTS:
            # Before the call, which may change both.
            self._first[name] = _first(subject, call)
        outcome: list[Any] = []
        errors: list[Exception] = []

        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                outcome.append(made(*args, **kwargs))
            except Exception as error:
                errors.append(error)
                raise
            return outcome[0]

        entry = Entry(name, number)
        running = functools.partial(self._watch.during, name)
        with self._inside():
            seen = observe(subject, call, entry, called=called, running=running, backward=False)
        self._entries.append(seen.entry)
        # The program gets the exception, as it may expect it.
        if errors:
            raise errors[0]
        return outcome[0]

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside = False

    def _name(self, subject: Any) -> str:
        """Return a unique name for a subject, also if several have the same name."""
        import torch

        is_module = isinstance(subject, torch.nn.Module)
        if is_module:
            base = type(subject).__qualname__
        else:
            base = getattr(subject, "__qualname__", "function")
        name, number = base, 1
        while name in self._subjects and self._subjects[name] is not subject:
            number += 1
            name = f"{base} {number}"
        self._subjects[name] = subject
        return name


def _state(subject: Any) -> list[Any]:
    return StateCheckpoint(()).changes(StateCheckpoint(subject))


def _first(subject: Any, call: Call) -> _First | None:
    try:
        return _First(copy.deepcopy(subject), copied(call))
    except Exception:
        return None  # it cannot be copied: observe only the calls that the program makes


def _fresh(subject: Any) -> Any:
    return copy.deepcopy(subject)
