"""Observe the calls of a model file: each scenario three times, then odd inputs with fresh copies of the model."""

import copy
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

from ctrace.inspector.capture.calls.models import Loaded
from ctrace.inspector.capture.calls.ways import Way, gradients, training
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.isolation.random_states import seed
from ctrace.inspector.errors import TargetError, telling_line
from ctrace.inspector.facts.scenarios import ScenarioKind
from ctrace.inspector.facts.trial import Entry, ProofRequest
from ctrace.inspector.features.fix.child.calls import Rounding, Seen, observe
from ctrace.inspector.features.fix.child.probing import Probing, callable_of
from ctrace.inspector.features.fix.child.sides import SideWatch

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

    def observe(self) -> Iterator[Seen]:
        """Call the model in its scenarios, then with probes."""
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

    def _scenario(self, name: str, way: Way) -> Iterator[Seen]:
        called = callable_of(self._model, self._request)
        is_asked = way.kind is not ScenarioKind.PROVOKED
        if self._request.compiled and not is_asked:
            return
        for index in range(TIMES if is_asked else 1):
            seed()
            with ExitStack() as modes:
                try:
                    call = way.make()
                    modes.enter_context(training(self._model, way))
                except TargetError:
                    return
                seed()
                entry = Entry(name, index, is_scenario=is_asked)
                began = time.monotonic()
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
                self._slowest = max(self._slowest, time.monotonic() - began)
                yield seen

    def _probes(self, pristine: Any) -> Iterator[Seen]:
        name, way = next(iter(self._ways.items()))
        probing = Probing(self._request, self._watch, self.rounding, self._slowest)

        def fresh() -> Any:
            return self._model if pristine is None else copy.deepcopy(pristine)

        yield from probing.run(name, fresh, way)
        self._probed += probing.run_names
        self.left_out = probing.left_out
        if pristine is not None and not self._request.compiled:
            asked = {each: way for each, way in self._ways.items() if way.kind is not ScenarioKind.PROVOKED}
            self.times = tuple(probing.times(name, fresh, asked or {name: way}))
