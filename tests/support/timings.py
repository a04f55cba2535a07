"""Handmade measurements, as processes record them."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ctrace.inspector.facts.rounds import RoundDone, WarmedUp
from ctrace.inspector.features.time.events import (
    Compiled,
    Differed,
    Done,
    Event,
    Failed,
    KernelUsed,
    Noted,
    Peaks,
    Setup,
    SharesMeasured,
    Skipped,
)
from ctrace.inspector.features.time.measuring import Fold
from ctrace.inspector.features.time.timing_model import CompileConfiguration, MeasuredConfiguration, Timings
from tests.support.poison import UNSEEN

DEFAULT = CompileConfiguration("default", mode="default")
WOBBLE = (1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.995, 1.005, 1.0, 0.99, 1.0, 1.01, 0.99, 1.0)


def setup(device: str = "cpu", scenarios: Sequence[str] = ("base",), parts: Sequence[str] = ("forward",)) -> Setup:
    return Setup("2.13.0", "3.11.7", device, 4, 8, tuple(scenarios), tuple(parts))


def timed(
    eager: float,
    compiled: float,
    *,
    scenario: str = "base",
    part: str = "forward",
    wobble: Sequence[float] = WOBBLE,
    compiling: float = 3.0,
    recorded: int = 0,
    unclean: int = 0,
) -> list[Event]:
    """Return the warm-up and the rounds of one part; the two sides have different noise."""
    warm = [
        WarmedUp(scenario, part, "eager", (eager * 2, *[eager] * 6), (), 0, settled=True),
        WarmedUp(scenario, part, "compiled", (compiling + compiled, *[compiled] * 7), (0,), recorded, settled=True),
    ]
    noise = zip(wobble, reversed(wobble), strict=True)
    rounds = [RoundDone(scenario, part, eager * one, compiled * other) for one, other in noise]
    dirty = [RoundDone(scenario, part, eager, 9.0, clean=False) for _ in range(unclean)]
    return [*warm, *dirty, *rounds]


def shares(side: str, call: float, on_gpu: bool = False, part: str = "forward", **fields: float) -> SharesMeasured:
    kernels = (KernelUsed("aten::addmm", 2.0, call * 0.2), KernelUsed("cpp_fused_relu_0", 1.0, call * 0.05))
    gpu = {"launches": call * 0.2, "gaps": call * 0.9, "launched": 3.0} if on_gpu else {}
    compiled = {"guards": call * 0.1, "runtime": call * 0.3, "wrapper": call * 0.1} if side == "compiled" else {}
    known = {"ops": call * 0.25, "kernels": call * 0.1, **gpu, **compiled, **fields}
    return SharesMeasured("base", part, side, call, kernel_list=kernels, **known)


MADE = Compiled(graphs=1, breaks=0, cuda_graphs="off")


def folded(configuration: CompileConfiguration, events: Iterable[Event]) -> Fold:
    """Return a Fold with these events."""
    fold = Fold(configuration)
    for event in events:
        fold.add(event)
    return fold


def measured(
    *events: Event, configuration: CompileConfiguration = DEFAULT, stopped: str = "", load: float = 0.4
) -> MeasuredConfiguration:
    return folded(configuration, events).measured(stopped=stopped, load=load)


FASTER = measured(
    setup(),
    *timed(1.15e-3, 0.82e-3),
    Peaks("base", "forward", 12 << 20, 8 << 20),
    shares("eager", 1.3e-3),
    shares("compiled", 0.9e-3, guards=0.02e-3, runtime=0.03e-3, wrapper=0.02e-3),
    Differed("base", 1.2e-7),
    MADE,
    Done(),
)
SLOWER = measured(
    setup("NVIDIA H200"),
    Noted("base", "unused_gradients"),
    *timed(58e-6, 203e-6, compiling=12.0),
    Peaks("base", "forward", 3 << 20, 2 << 20),
    shares("eager", 90e-6, on_gpu=True),
    shares("compiled", 260e-6, on_gpu=True),
    MADE,
    Done(),
)
SAME = measured(setup(), *timed(1.0e-3, 1.003e-3), Peaks("base", "forward", 1024, 1024), MADE, Done())
NOISY = measured(
    setup(), *timed(1.0e-3, 0.9e-3, wobble=(0.5, 3, 0.8, 2.5, 0.6, 2, 1, 0.4, 1.9, 3, 0.5, 1.2, 2, 0.7, 0.9)), load=11.5
)
FEW = measured(setup(), *timed(1.0e-3, 0.5e-3, wobble=(1.0, 1.01, 0.99)), MADE, stopped="interrupted")
TRAIN = measured(
    setup(parts=("step", "forward", "backward"), scenarios=("base", "wide")),
    *timed(3.0e-3, 2.0e-3, part="step"),
    *timed(1.0e-3, 0.7e-3, part="forward", compiling=0),
    *timed(2.0e-3, 1.4e-3, part="backward", compiling=0),
    *timed(9.0e-3, 8.99e-3, scenario="wide", part="step", unclean=1),
    Noted("wide", "mutates_inputs"),
    Failed("run", "RuntimeError", "no such luck\nat all", "wide", "/home/user/project/model.py", 7),
    Peaks("base", "step", 12 << 20, 8 << 20),
    MADE,
    Done(),
)
BROKEN = measured(
    Failed("eager", "ValueError", f"no such luck {UNSEEN}", "base", "/tmp/a model.py", 3, "First make the model run."),
    Done(),
)
CRASHED = measured(
    configuration=CompileConfiguration("max-autotune", mode="max-autotune"), stopped="crashed with SIGSEGV"
)

ALL = {
    "faster": FASTER,
    "slower": SLOWER,
    "same": SAME,
    "noisy": NOISY,
    "few": FEW,
    "train": TRAIN,
    "broken": BROKEN,
    "crashed": CRASHED,
}


def configuration(
    name: str, eager: float, compiled: float, *, call: float = 0.0, **fields: object
) -> MeasuredConfiguration:
    made = replace(MADE, **{key: value for key, value in fields.items() if key in Compiled.__struct_fields__})
    found = measured(
        setup("NVIDIA H200"),
        *timed(eager, compiled),
        Peaks("base", "forward", 3 << 20, 2 << 20),
        shares("eager", eager, on_gpu=True),
        shares("compiled", call or compiled, on_gpu=True),
        Differed("base", 2e-7),
        made,
        Done(),
        configuration=CompileConfiguration(name, mode=name),
    )
    return replace(found, warm_seconds=0.9)


MODES = Timings(
    "model.py",
    (
        configuration("default", 1.15e-3, 0.82e-3),
        configuration("reduce-overhead", 1.16e-3, 0.41e-3, cuda_graphs="recorded", recordings=1),
        configuration(
            "max-autotune", 1.14e-3, 2.2e-3, cuda_graphs="skipped", skips=(Skipped("skipping cudagraphs due to x", 2),)
        ),
        CRASHED,
    ),
    is_table=True,
)
ALL_SLOWER = Timings(
    "model.py", (configuration("default", 58e-6, 203e-6), configuration("max-autotune", 58e-6, 117e-6)), is_table=True
)
TIED = Timings(
    "model.py", (configuration("default", 1e-3, 0.5e-3), configuration("max-autotune", 1.04e-3, 0.5e-3)), is_table=True
)
NOTHING = Timings("model.py", (CRASHED, BROKEN), is_table=True)
TABLES = {"modes": MODES, "slower": ALL_SLOWER, "tied": TIED, "nothing": NOTHING}
