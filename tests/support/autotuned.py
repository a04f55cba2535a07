"""Sessions of runs that autotuned, by hand: a GPU's choices with and without a spread, failures, Triton kernels."""

from msgspec.structs import replace

from ctrace.inspector.facts.autotuning import (
    Choice,
    ChoiceStatus,
    TimeSpread,
    TunedInput,
    TunedKernel,
    TunedOperation,
    Untried,
)
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Session
from tests.support.sessions import ALL, MODEL
from tests.support.targeted import EMITTED, H100
from tests.support.userkernels import user_kernel

SETTINGS = "ACC_TYPE='tl.float32', BLOCK_K={k}, BLOCK_M=64, BLOCK_N=32, GROUP_M=8, num_stages=3, num_warps={warps}"


def spread(median: float, *, loose: float = 0.01) -> TimeSpread:
    """Return the spread of 100 runs around a median."""
    return TimeSpread(100, median * (1 - 2 * loose), median * (1 - loose), median, median * (1 + loose))


def timed(name: str, seconds: float, kind: str = "triton", *, loose: float | None = 0.01, settings: str = "") -> Choice:
    """Return a choice with a time; without `loose`, torch kept one number."""
    found = None if loose is None else spread(seconds, loose=loose)
    return Choice(name, kind, settings, ChoiceStatus.TIMED, seconds, found)


MM = TunedOperation(
    "0/0",
    Stage.FORWARD,
    "mm",
    (TunedInput(("64", "256"), ("256", "1"), "bfloat16", "cuda"), TunedInput(("256", "512"), dtype="bfloat16")),
    (
        timed("triton_mm_7", 11.2e-6, settings=SETTINGS.format(k=32, warps=4)),
        timed("mm", 11.3e-6, "external"),
        *(timed(f"triton_mm_{number}", (12 + number) * 1e-6, settings=SETTINGS.format(k=64, warps=8)) for number in range(6)),
        Choice(
            "triton_mm_18", "triton", SETTINGS.format(k=128, warps=8), ChoiceStatus.DOES_NOT_FIT,
            error="OutOfResources: out of resource: shared memory, Required: 294912, Hardware limit: 232448.",
        ),
        Choice("triton_mm_19", "triton", SETTINGS.format(k=128, warps=2), ChoiceStatus.FAILED_TO_COMPILE),
    ),
    taken="triton_mm_3",
    is_fused=True,
    untried=(
        Untried("Triton templates with TMA", ("triton.enable_persistent_tma_matmul is off",)),
        Untried("CUTLASS templates", ("not in max_autotune_gemm_backends (ATEN,TRITON,CPP)",)),
        Untried("NVIDIA Universal GEMM templates", ("not in max_autotune_gemm_backends (ATEN,TRITON,CPP)",)),
    ),
    lines=(f"{MODEL}:10",),
    is_on=True,
    is_swept=True,
    seconds=3.4,
    compile_seconds=2.6,
    timing_seconds=0.71,
)  # fmt: skip
CACHED = replace(
    MM,
    op="addmm",
    choices=(timed("bias_addmm", 9.1e-6, "external", loose=None), timed("addmm", 20e-6, "external", loose=None)),
    taken="bias_addmm",
    is_fused=False,
    untried=(),
    is_cached=True,
    seconds=0.01,
    compile_seconds=None,
    timing_seconds=None,
)
ALONE = replace(
    CACHED, op="convolution", choices=(Choice("convolution", "external"),), taken="convolution", is_cached=False,
    is_swept=False, seconds=None, untried=(Untried("Triton templates", ("is_big_gpu is false: 40 multiprocessors",)),),
)  # fmt: skip
SOFTMAX = TunedKernel(
    "0/0",
    Stage.FORWARD,
    "triton_per_fused__softmax_1",
    (
        timed("XBLOCK: 8, num_warps: 2, num_stages: 1", 3.1e-6, loose=0.001),
        timed("XBLOCK: 1, num_warps: 2, num_stages: 1", 4.6e-6, loose=0.001),
    ),
    "XBLOCK: 8, num_warps: 2, num_stages: 1",
    "miss",
    {"x": "64", "r0_": "512"},
    0.41,
)
KNOWN = TunedKernel("0/0", Stage.FORWARD, "scale_kernel_0", (), "BLOCK: 128, num_warps: 4, num_stages: 3", "hit")
USER = user_kernel(
    graph="0/0", stage=Stage.FORWARD, operation="op3", kernel="scale_kernel", file=MODEL, line=3, name="scale_kernel_0", decorators=("Autotuner", "JITFunction"),
    configs=({"BLOCK": "64"}, {"BLOCK": "128"}), key=("n_elements",),
)  # fmt: skip
NOT_RUN = replace(USER, operation="op4", kernel="shift_kernel", name="shift_kernel_0")
_RUN = replace(ALL["healthy"], environment=replace(ALL["healthy"].environment, built=True, device="cuda"))
TUNED: Session = replace(_RUN, tuned=(MM, CACHED, ALONE), tuned_kernels=(SOFTMAX, KNOWN), user_kernels=(USER, NOT_RUN))
"""A run on a GPU."""
UNTIMED = replace(
    MM,
    choices=tuple(
        replace(each, status=ChoiceStatus.NOT_TIMED, seconds=None, spread=None, error="") for each in MM.choices
    ),
    taken="mm",
    is_swept=False,
    is_fused=False,
    seconds=None,
)
TARGET: Session = replace(EMITTED, gpu=H100, tuned=(UNTIMED,))
"""A run with a target GPU: nothing was timed."""
OFF: Session = replace(_RUN, tuned=(replace(ALONE, is_on=False, untried=()),))
"""A run without max_autotune."""
NOTHING: Session = _RUN
"""A run without operations that have choices."""
UNBUILT: Session = replace(ALL["healthy"], tuned=())
