"""Handmade sessions of runs with `--target`: code for absent GPUs, undecided choices, the program's questions."""

from msgspec.structs import replace

from ctrace.inspector.facts.built import Built, Gpu, Ir, StageTime
from ctrace.inspector.facts.kernel_facts import OutputCode, Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.target_gpu import DeviceQuestion, TimedCandidate, Undecided
from tests.support.kernelsessions import KERNELS, MM, PER, WRAPPER
from tests.support.sessions import ENVIRONMENT, HOSTILE_TEXT, MODEL

H100 = Gpu(
    (9, 0), 65536, 2048, 233472, 32, name="NVIDIA H100 80GB HBM3", processors=132, clock=1.98e9, bandwidth=3.35e12,
    tf32=(), target="h100", l2=52428800, sources={"bandwidth": "NVIDIA H100 data sheet"},
)  # fmt: skip
A100 = Gpu(
    (8, 0), 65536, 2048, 167936, 32, name="NVIDIA A100-SXM4-80GB", processors=108, clock=1.41e9, bandwidth=2.039e12,
    tf32=(), target="a100", l2=41943040,
)  # fmt: skip
T4 = Gpu((7, 5), 65536, 1024, 65536, 32, name="Tesla T4", processors=40, clock=1.59e9, tf32=(), target="t4")
ATTENTION = PER.name
MUL = "triton_poi_fused_mul_0"
SECONDS = tuple(map(StageTime, ("ttir", "ttgir", "llir", "ptx", "cubin"), (0.004, 0.009, 0.021, 0.014, 0.061)))


def built(name: str, hash_: str, stage: Stage = Stage.FORWARD, **more: object) -> Built:
    plain = Built(
        stage, name, hash_, warps=4, stages=1, chosen=False, blocks={"XBLOCK": 1}, registers=32, spills=0, shared=16,
        stage_times=SECONDS, graph="0/0", ir={"ptx": Ir(".version 8.7\n.target sm_90a\n"), "ttir": Ir("module {}\n")},
    )  # fmt: skip
    return replace(plain, **more)


BUILT = (
    built(ATTENTION, "aa"),
    built(ATTENTION, "bb", warps=8, blocks={"XBLOCK": 8}, registers=255, spills=12, shared=2064),
    built(MUL, "cc", Stage.BACKWARD, chosen=True, blocks={"XBLOCK": 256}, registers=16, shared=0, stage_times=()),
)
UNDECIDED = (
    Undecided(Stage.FORWARD, "padding", "mm(64x64, 64x33)", "not padded", lines=(f"{MODEL}:5",), graph="0/0"),
    Undecided(
        Stage.FORWARD, "autotuning", "mm(64x64, 64x64)", "the library's",
        (TimedCandidate("mm", "external"), TimedCandidate("triton_mm_4", "triton", "BLOCK_M=64, num_warps=4")), (f"{MODEL}:10",),
        graph="0/0",
    ),
)  # fmt: skip
ASKED = (
    DeviceQuestion(MODEL, 6, "attend", "torch.cuda.is_available()", "True", as_target=True),
    DeviceQuestion(MODEL, 7, "attend", "x.is_cuda", "False", as_target=False),
)
EMITTED: Session = replace(
    KERNELS,
    environment=replace(ENVIRONMENT, device="cpu"),
    breaks=(),
    skips=(),
    built=BUILT,
    gpu=H100,
    undecided=UNDECIDED,
    device_questions=ASKED,
)
"""For an H100: two configurations of one kernel, one of another; each graph has code."""
ON_A100 = replace(
    EMITTED,
    gpu=A100,
    kernels=(
        replace(MM, source=""),
        replace(PER, source=PER.source.replace("None", "0")),
        replace(EMITTED.kernels[3], name="triton_poi_fused_mul_1"),
        EMITTED.kernels[4],
    ),
    built=(built(ATTENTION, "dd", chosen=True, registers=64, shared=1024),),
    undecided=UNDECIDED[:1],
)
ON_T4 = replace(EMITTED, gpu=T4, built=(), undecided=(), device_questions=())
"""For a GPU with few known facts; Triton compiled nothing."""
NOT_ALL = replace(EMITTED, code=(OutputCode("0/0", Stage.FORWARD, WRAPPER),), kernels=(MM, PER), built=())
"""The second graph has no code."""


def hostile(session: Session) -> Session:
    """Put text that would control a terminal into every field that comes from a log."""
    gpu = replace(H100, name=HOSTILE_TEXT, target=HOSTILE_TEXT, sources={"bandwidth": HOSTILE_TEXT})
    undecided = tuple(
        replace(
            each,
            subject=HOSTILE_TEXT,
            taken=HOSTILE_TEXT,
            kind=HOSTILE_TEXT,
            candidates=(TimedCandidate(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT),),
        )
        for each in UNDECIDED
    )
    asked = tuple(
        replace(each, file=HOSTILE_TEXT, function=HOSTILE_TEXT, asked=HOSTILE_TEXT, answer=HOSTILE_TEXT)
        for each in ASKED
    )
    return replace(session, gpu=gpu, undecided=undecided, device_questions=asked)
