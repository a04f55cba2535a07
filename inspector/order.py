"""What a capture is asked to do, as it travels from the command to the child process: JSON in the run's folder."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ctrace.inspector.gpus.gpu import TargetGpu

CORES = "CTRACE_CORES"
"""The variable that tells a capture how many cores it may use, where several are made at once."""


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
    """Whether a model's graphs run as Dynamo made them, and nothing behind Dynamo is asked, whatever `backend` says."""


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
    owned: tuple[str, ...] = ()
    """Paths whose code counts as the user's, wherever they lie."""
    gpu: TargetGpu | None = None
    """What `options.target` names."""

    def to_json(self) -> str:
        """Write the order as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_file(cls, path: Path) -> "Order":
        """Read an order that `to_json` wrote."""
        data = json.loads(path.read_text())
        options = data.pop("options")
        options = Options(**{**options, "inputs": tuple(options["inputs"]), "vary": tuple(options["vary"])})
        tuples = {"args": tuple(data["args"]), "owned": tuple(data["owned"])}
        gpu = data.pop("gpu", None)
        target = None if gpu is None else TargetGpu(**{**gpu, "capability": tuple(gpu["capability"])})
        return cls(**{**data, **tuples, "options": options, "gpu": target})
