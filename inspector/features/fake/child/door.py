"""How the core reaches a model without weights: load it, and follow its calls."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.calls.call_parts import WholeModel, roots
from ctrace.inspector.capture.calls.calling import stop_in
from ctrace.inspector.capture.calls.model_files import WithoutValues
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.core.hook import Hook
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.fake_facts import ModelLoaded
from ctrace.inspector.features.fake.child.asked_values import AskedValues
from ctrace.inspector.features.fake.child.model_folder import cut_layers, fake_checkpoints, module_of, notes_of
from ctrace.inspector.features.fake.child.small_run import run_small
from ctrace.inspector.features.fake.child.storageless_mode import KnownValues, mark_real
from ctrace.inspector.features.fake.child.symbolic_graphs import symbolic_graphs
from ctrace.inspector.features.fake.child.unseen_reads import unseen_reads
from ctrace.inspector.features.fake.child.without_storage import (
    call_without_storage,
    is_on_meta,
    resizable_storages,
    without_storage,
)
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.options import parse_assumption

module_of_folder = module_of
"""Makes a model from a local folder of transformers."""
HOOKS: tuple[Hook, ...] = (symbolic_graphs, fake_checkpoints)
"""The hooks that follow graphs and checkpoints without values."""


class FakeModel(WholeModel):
    """A model that has no weights if `--fake` asks for that, or if its file put it on the meta device."""

    def __init__(self, options: Options, recorder: Recorder) -> None:
        self._options = options
        self._recorder = recorder
        self._values: _FollowedCalls | None = None
        self._active = ExitStack()
        self._layers_cut = 0

    @property
    def is_fake(self) -> bool:  # type: ignore[override]
        """Whether values do not exist."""
        return self._values is not None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Load and call the model without values in the block; a model on the meta device begins that later."""
        with self._active:
            if self._options.fake:
                self._begin()
            yield

    def stopping(self) -> AbstractContextManager[None]:
        """Raise CallStoppedError for any exception which a missing value is the cause of."""
        return _stopping(lambda: None if self._values is None else self._values.asked)

    def _begin(self) -> None:
        asked = AskedValues(self._recorder, tuple(map(parse_assumption, self._options.assume)))
        values = KnownValues(asked)
        self._values = _FollowedCalls(asked, values)
        self._active.enter_context(values.mode)
        self._active.enter_context(unseen_reads(values, asked, self._recorder))
        self._active.enter_context(resizable_storages())
        self._active.callback(symbolic_graphs.stop)
        symbolic_graphs.follow(asked, values)
        self._active.callback(fake_checkpoints.stop)
        fake_checkpoints.follow(asked)

    def made(self, model: Any, module: ModuleType) -> Any:
        """Cut layers, and take the storage of parameters that still have one."""
        modules = roots(model).values()
        if self._options.layers is not None:
            self._layers_cut = cut_layers(modules, self._options.layers)
        # Only the loaded model tells: its parameters have no values, so a call could compute none.
        if not self.is_fake and any(map(is_on_meta, modules)):
            self._begin()
        for note in notes_of(module):
            self._recorder.problem(note)
        if self._values is not None:
            for each in modules:
                without_storage(each)
            mark_real(module, self._values.values)
            run_small(module, self._values.asked, self._values.values, self._recorder)
        return model

    def arguments(self, call: Call) -> Call:
        """Replace arguments on the meta device: the model is not there any more."""
        if self._values is None:
            return call
        return call_without_storage(call)

    def values(self) -> WithoutValues | None:
        """Return what follows the calls if values do not exist."""
        return self._values

    def size(self, model: Any) -> ModelLoaded:
        """Return how large the model is, and how many layers were cut."""
        return replace(super().size(model), layers=self._options.layers, layers_cut=self._layers_cut)


class _FollowedCalls:
    """Tells the answers which call of the model asks."""

    def __init__(self, asked: AskedValues, values: KnownValues) -> None:
        self.asked = asked
        self.values = values

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Record no stop in the block, an eager call that only counts ops."""
        self.asked.begin(self.asked.call)
        with self.asked.unrecorded():
            yield

    def stopping(self) -> AbstractContextManager[None]:
        """Raise CallStoppedError for any exception which a missing value is the cause of."""
        return _stopping(lambda: self.asked)

    def call(self, index: int) -> None:
        """Note that a compiled call of a scenario begins."""
        self.asked.begin(index)


@contextmanager
def _stopping(asked: Callable[[], AskedValues | None]) -> Iterator[None]:
    """Raise a stop in place of what it causes; a model on the meta device has `asked` only once it is made."""
    try:
        yield
    except Exception as error:
        values = asked()
        stop = None
        if values is not None:
            stop = stop_in(error) or values.stop_of_reader(error)
        if stop is None or stop is error:
            raise
        raise stop from error
