"""Run a copy of the model without torch.compile, and leave no trace of that."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from ctrace.inspector.capture.calling import Results, called
from ctrace.inspector.capture.copies import Copier, RandomStates, copied
from ctrace.inspector.capture.ops import OpCounts
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.results import taken
from ctrace.inspector.capture.ways import Call, Way
from ctrace.inspector.capture.world import World
from ctrace.inspector.errors import TargetError

Around = Callable[[], AbstractContextManager[Any]]


class EagerError(Exception):
    """The model raised without torch.compile; the cause is the user's exception."""


@dataclass(frozen=True, slots=True)
class EagerRun:
    """What an eager call gave, and whether it drew random numbers."""

    results: Results
    counts: OpCounts | None
    random: bool


class Eager:
    """Calls copies of a model, each made of the model as it is then; each call is made in a context of `around`."""

    def __init__(self, model: Any, recorder: Recorder, *, train: bool, around: Around = nullcontext) -> None:
        self._model = model
        self._recorder = recorder
        self._train = train
        self._around = around
        self._copier: Copier | None = Copier()

    def run(
        self, call: Call, way: Way, world: World, counting: AbstractContextManager[OpCounts | None] | None = None
    ) -> EagerRun | None:
        """Call a copy with copies of the arguments, and put the world back; None: the model cannot be copied.

        Raises:
            TargetError: there is nothing to run backward.
            EagerError: the model raised.
        """
        model = self._copy()
        if model is None:
            return None
        random = RandomStates()
        try:
            given = copied(call)
            with self._around():
                results, counts = called(model, given, way, train=self._train, counting=counting)
            kept = Results(taken(results.outputs), taken(results.inputs), results.gradients)
            return EagerRun(kept, counts, random.have_moved())
        except TargetError:
            raise
        except Exception as error:
            raise EagerError from error
        finally:
            random.restore()
            self._put_back(world)

    def _copy(self) -> Any:
        if self._copier is None:
            return None
        try:
            return self._copier.copy(self._model)
        except Exception as error:
            self._copier = None
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            what = "coverage was not measured, and results were not compared with eager"
            self._recorder.problem(f"{what}: the model cannot be copied for an eager run ({why})")
            return None

    def _put_back(self, world: World) -> None:
        with self._recorder.watching("what an eager call changed"):
            if not world.restore():
                self._recorder.problem("an eager call changed a tensor that is too large to be put back")
