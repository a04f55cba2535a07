"""What a capture is asked to do, as it travels from the command to the child process: JSON in the run's folder."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.gpus.gpu import TargetGpu
from ctrace.inspector.model.trial import Trial

CORES = "CTRACE_CORES"
"""The variable by which users say how many cores a capture may use."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to call a model; the words of the command line."""

    inputs: tuple[str, ...] = ()
    vary: tuple[str, ...] = ()
    provoke: bool = False
    train: bool = False
    mode: str | None = None
    dynamic: bool | None = None
    fullgraph: bool = False
    backend: str | None = None
    build: bool = False
    guard_cost: bool = False
    """Whether to measure what guards cost."""
    target: str | None = None
    """The GPU that code is emitted for; None: the device that the program runs on."""
    trace_only: bool = False
    """Whether a model's graphs run as Dynamo made them, whatever `backend` says; see `inductor_guards`."""
    inductor_guards: bool = True
    """With `trace_only`: whether graphs with symbolic sizes are lowered for the guards that Inductor adds to them."""
    fast: bool = False
    """Whether only Dynamo is looked at: with `trace_only`, without `inductor_guards`, and no advice is checked."""


@dataclass(frozen=True, slots=True)
class Order:
    """One capture: what to run, how, and where the log goes."""

    kind: str
    """`model` or `program`."""
    path: str | None
    module: str | None
    name: str | None
    args: tuple[str, ...]
    options: Options
    log: str
    """Where the log goes; empty: nowhere on disk. Only the child that the order is made for writes there."""
    owned: tuple[str, ...] = ()
    """Paths whose code counts as the user's, wherever they lie."""
    gpu: TargetGpu | None = None
    """What `options.target` names."""
    typed: str | None = None
    """The path of a program as the command line names it: what the program finds in `sys.argv[0]`."""
    cores: int | None = None
    """How many cores the capture may use, where several are made at once; None: all."""
    trial: Trial | None = None
    """What to change about the model, to check a piece of advice."""

    def to_json(self) -> str:
        """Write the order as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_file(cls, path: Path) -> "Order":
        """Read an order that `to_json` wrote.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not as `to_json` writes it.
        """
        order = typed(cls, read_object(path), "the order")
        if order.kind not in ("model", "program"):
            raise ValueError(f"kind is {order.kind!r:.60}, neither model nor program")
        if order.path is None and order.module is None:
            raise ValueError("there is neither a path nor a module")
        return order
