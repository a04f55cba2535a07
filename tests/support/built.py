"""A handmade session with kernels built on an H100: attention at 4 x 1024 x 1024, as in `inspector/facts/built.py`."""

from msgspec.structs import replace

from ctrace.inspector.facts.built import Built, Gpu, Ir, LaunchTiming, StageTime
from ctrace.inspector.facts.kernel_facts import Argument, Kernel, Launch, Stage
from ctrace.inspector.facts.session import Session
from tests.support import sessions

H100 = Gpu(
    (9, 0), registers=65536, threads=2048, shared=233472, warp=32, name="NVIDIA H100 80GB HBM3", processors=132,
    clock=1.98e9, bandwidth=3.35232e12, copied=2.9e12, empty=2.1e-6, tf32=(),
)  # fmt: skip
SOFTMAX = "triton_per_fused_amax_div_exp_mul_sub_sum_0"
TUNED = "triton_poi_fused_relu_1"
BMM = "extern_kernels.bmm"
SIZE = 4 * 1024 * 1024 * 4
"""Bytes of one of the four matrices."""
PRODUCT = 2 * 4 * 1024**3
"""FLOPs of one of the two matmuls."""
SECONDS = tuple(
    map(StageTime, ("source", "ttir", "ttgir", "llir", "ptx", "cubin"), (0.012, 0.004, 0.009, 0.021, 0.014, 0.061))
)

_MATRIX = Argument("buf0", tensor=True, dtype="float32", shape=(4, 1024, 1024))
_CHEAP = Launch(ops=("aten.exp",), arguments=(_MATRIX,), read=SIZE, written=SIZE, flops=5 * 4 * 1024**2)
_COSTLY = Launch(ops=("aten.bmm",), arguments=(_MATRIX, _MATRIX), read=2 * SIZE, written=SIZE, flops=PRODUCT)


def kernel(name: str, language: str, *launches: Launch) -> Kernel:
    return Kernel("0/0", Stage.INFERENCE, name, language, calls=len(launches), launches=launches)


def built(name: str, hash_: str = "aa", **more: object) -> Built:
    plain = Built(
        Stage.INFERENCE, name, hash_, warps=1, stages=1, blocks={"XBLOCK": 1}, registers=64, spills=0, shared=0,
        stage_times=SECONDS, chosen=True, graph="0/0", ir={"ptx": Ir(".version 8.7\n.target sm_90a\n"), "sass": Ir("LDC R1, c[0x0][0x28] ;")},
    )  # fmt: skip
    return replace(plain, **more)


def timed(name: str, launch: int, seconds: float | None, why: str = "") -> LaunchTiming:
    return LaunchTiming(Stage.INFERENCE, name, launch, 50 if seconds else 0, seconds, why, graph="0/0")


BUILT = (
    built(SOFTMAX),
    built(TUNED, "bb", warps=4, blocks={"XBLOCK": 512}, registers=20, stage_times=()),
    built(TUNED, "cc", warps=8, blocks={"XBLOCK": 1024}, registers=16, chosen=False, ir={}),
)
TIMED = (
    timed(BMM, 0, 184e-6), timed(SOFTMAX, 0, 14.2e-6), timed(BMM, 1, 175e-6),
    timed(TUNED, 0, None, "there is no room for a second copy of its arguments"),
)  # fmt: skip
KERNELS = (kernel(BMM, "external", _COSTLY, _COSTLY), kernel(SOFTMAX, "triton", _CHEAP), kernel(TUNED, "triton"))
SESSION: Session = replace(sessions.HEALTHY, kernels=KERNELS, built=BUILT, timed=TIMED, gpu=H100)
