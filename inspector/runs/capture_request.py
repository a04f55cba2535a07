"""The request for one capture, from the command to the child process, as JSON in the run's folder."""

import json
from pathlib import Path

from msgspec import Struct, field, to_builtins

from ctrace.inspector.facts.trial import ProofRequest, Trial
from ctrace.inspector.files.typed_json import parsed_object, read_object, typed
from ctrace.inspector.knowledge.gpus.gpu_table import TargetGpu

PIPES = Path("/dev/fd")
"""Where a process finds its descriptors as files."""
CORES = "CTRACE_CORES"
"""The environment variable that limits the cores of a capture."""


def is_inductor(backend: str | None) -> bool:
    """Whether a backend is Inductor, which torch.compile takes if none is named."""
    return backend in (None, "inductor")


class Options(Struct, frozen=True):
    """How to call a model, as the command line spells it."""

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
    """Whether to measure the cost of guards."""
    guard_parts: bool = True
    """With `guard_cost`, whether to measure each part of a guard tree, too; that takes most of the time."""
    gpu: str | None = field(default=None, name="target")
    """The target GPU (`--target`); None for the device that the program runs on."""
    trace_only: bool = False
    """Whether to run graphs as Dynamo captured them, whatever `backend` says; see `inductor_guards`."""
    inductor_guards: bool = True
    """With `trace_only`, whether to lower graphs with symbolic sizes, to record the guards that Inductor adds."""
    caches: str | None = None
    """`private` or `user`: compile with these caches on, and record little else; None: compile without caches."""
    compare: bool = True
    """Whether to call the model in eager, too, to count its ops and to compare the results."""
    time_kernels: bool = True
    """With `build`, whether to time each kernel."""
    fast: bool = False
    """Whether to capture Dynamo only: with `trace_only`, without `inductor_guards`, and without checking advice."""
    fake: bool = False
    """Whether to load and call the model without storage for parameters and random numbers."""
    assume: tuple[str, ...] = ()
    """The values of expressions that do not exist with `fake`."""
    layers: int | None = None
    """How many layers to leave of each list of modules; None: all."""
    world: int | None = None
    """How many ranks the job has of which the capture is one; None: it is a process of its own."""
    mesh: str | None = None
    """The mesh of the ranks, such as `dp=128,tp=8`; None: the program's own."""
    rank: int | None = None
    """Which rank of the world it is; None: the first."""


class TorchSetting(Struct, frozen=True):
    """A value for an option of torch's configuration."""

    name: str
    """With its module, such as `torch._inductor.config.max_fusion_size`."""
    value: str
    """As JSON."""


class TorchSource(Struct, frozen=True):
    """Functions of a module of torch that get the code of another torch's file."""

    module: str
    path: str
    """The file of the other torch."""
    functions: tuple[str, ...]
    """Their qualified names."""


class CaptureRequest(Struct, frozen=True):
    """One capture: what to run, how, and where the log goes."""

    kind: str
    """`model` or `program`."""
    path: str | None
    module: str | None
    name: str | None
    args: tuple[str, ...]
    options: Options
    log: str
    """The log file, to which only this capture's child writes; empty if the log is not on disk."""
    owned: tuple[str, ...] = ()
    """Paths whose code counts as the user's."""
    gpu: TargetGpu | None = None
    """The GPU that `options.gpu` names."""
    typed: str | None = None
    """The path of a program as typed, which becomes its `sys.argv[0]`."""
    cores: int | None = None
    """How many cores the capture may use if several run at once; None for all."""
    trial: Trial | None = None
    """What to change in the model, to check a piece of advice."""
    caches: str = ""
    """The folder of the private caches; empty: none."""
    records_files: bool = False
    """Whether to record the files that the model was loaded from."""
    proof: ProofRequest | None = None
    """What to observe in the target's calls, instead of capturing what torch.compile does."""
    calls: int = 0
    """How many calls to make at least: those after two in each scenario cycle through the scenarios, beside no eager
    call."""
    seconds: float = 0.0
    """The time for calls that cycle; none begins later."""
    config: tuple[TorchSetting, ...] = ()
    """What to set in torch's configuration before the target is loaded; the feature `upgrade` does."""
    sources: tuple[TorchSource, ...] = ()
    """What to replace in torch's code before the target is loaded."""
    called: str = ""
    """The file for the names of torch's functions that were called; empty: they are not recorded."""
    seed: int | None = None
    """What the generators of random numbers start with; None: with what Python and torch choose."""

    def to_json(self) -> str:
        """Return the request as JSON."""
        return json.dumps(to_builtins(self))

    @classmethod
    def from_file(cls, path: Path) -> "CaptureRequest":
        """Read a request that `to_json` wrote to a file, or that the command sends through a pipe (`channel.py`).

        Raises:
            OSError: it cannot be read.
            ValueError: it does not have the form that `to_json` writes.
        """
        request = typed(
            cls, parsed_object(path.read_text("utf-8")) if path.parent == PIPES else read_object(path), "the request"
        )
        if request.kind not in ("model", "program"):
            raise ValueError(f"kind is {request.kind!r:.60}, neither model nor program")
        if request.path is None and request.module is None:
            raise ValueError("there is neither a path nor a module")
        return request
