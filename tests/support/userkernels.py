"""Handmade calls of user-written Triton kernels, for reports."""

from typing import Any

from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Environment, Session
from ctrace.inspector.facts.user_kernels import (
    Configuration,
    Epilogue,
    Grid,
    Parameter,
    ParameterKind,
    TritonOp,
    UserKernel,
)

CWD = "/home/user/project"
MODEL = f"{CWD}/model.py"
HOSTILE = "\x1b[31mred\u202e"


def user_kernel(grids: Any = (), configs: Any = (), **facts: Any) -> UserKernel:
    """Make a call of which little is known."""
    unknown: dict[str, Any] = {
        "device": "",
        "flops": False,
        "stack": "",
        "assumed": "",
        "decorators": (),
        "parameters": (),
    }
    unknown |= dict.fromkeys(("key", "heuristics", "restored", "zeroed"), ())
    all_grids, all_configs = tuple(map(Grid, grids)), tuple(map(Configuration, configs))
    return UserKernel(**{**unknown, **facts, "all_grids": all_grids, "all_configs": all_configs})


def parameter(name: str, kind: ParameterKind, **facts: Any) -> Parameter:
    """Make a parameter of which little is known."""
    return Parameter(name, kind, **{"constexpr": False, "value": "", "dtype": "", "shape": (), **facts})


def tensor(name: str, *, written: bool | None, read: bool | None = None) -> Parameter:
    """Make a parameter that is a matrix."""
    return Parameter(name, ParameterKind.TENSOR, False, "", "float32", ("32", "256"), written=written, read=read)


def triton_op(name: str, line: int, **facts: Any) -> TritonOp:
    """Make an op of the model's file."""
    return TritonOp(name, MODEL, line, **{"fallbacks": (), "autograd": False, "flops": False, "mutates": (), **facts})


ADD = user_kernel(
    graph="0/0", stage=Stage.INFERENCE, operation="op1", kernel="add_relu_kernel", file=MODEL, line=31,
    name="add_relu_kernel_0", lines=(f"{MODEL}:46",), device="cuda:0", decorators=("JITFunction",),
    parameters=(
        tensor("x_ptr", written=False, read=True), tensor("y_ptr", written=False, read=True),
        tensor("out_ptr", written=True, read=False), parameter("size", ParameterKind.NUMBER, value="8192"),
        parameter("block", ParameterKind.CONSTANT, constexpr=True, value="1024", fixed=True),
    ),
    grids=(("8", "1", "1"),), epilogue=Epilogue.SWITCHED_OFF,
)  # fmt: skip
TUNED = user_kernel(
    graph="0/0", stage=Stage.FORWARD, operation="op2", kernel="scale_kernel", file=MODEL, line=12, name="scale_kernel_0",
    lines=(f"{MODEL}:60",), device="cuda:0", decorators=("Autotuner", "Heuristics", "JITFunction"),
    parameters=(
        tensor("x_ptr", written=True), tensor("out_ptr", written=True), parameter("size", ParameterKind.NUMBER, value="s77"),
        parameter("block", ParameterKind.CONFIG, constexpr=True), parameter("even", ParameterKind.CONFIG, constexpr=True),
    ),
    assumed="RuntimeError: ttir analysis hit an op we do not know how to analyze: tt.elementwise_inline_asm",
    grids=(("(s77 + 255)//256", "1", "1"), ("(s77 + 511)//512", "1", "1")),
    configs=(
        {"block": "256", "even": "True", "num_warps": "4"}, {"block": "512", "even": "False", "num_warps": "8"},
    ),
    key=("size",), heuristics=("even",), restored=("x_ptr",), epilogue=Epilogue.WRITES,
)  # fmt: skip
OP = user_kernel(
    graph="1/0", stage=Stage.FORWARD, operation="op1", kernel="gelu_kernel", file=MODEL, line=80, lines=(f"{MODEL}:99",),
    device="cpu", decorators=("JITFunction",), parameters=(tensor("x_ptr", written=True), tensor("out_ptr", written=True)),
    assumed="RuntimeError: 0 active drivers ([]). There should only be one.", grids=(("8", "1", "1"),),
    op=triton_op("mylib::gelu", 88, fallbacks=("cpu",), autograd=False, flops=True),
)  # fmt: skip
OLD = user_kernel(
    graph="2/0", stage=Stage.BACKWARD, operation="op0", kernel=HOSTILE, file=f"{CWD}/{HOSTILE}.py", line=1, device="cuda:0",
    decorators=("JITFunction",), parameters=(tensor(HOSTILE, written=True),), grids=((HOSTILE,),), assumed=None,
    name="old_0", flops=True, epilogue=Epilogue.UNKNOWN_TO_TORCH,
    op=triton_op("mylib::old", 5, autograd=True),
)  # fmt: skip
SESSION = Session(environment=Environment(cwd=CWD), user_kernels=(ADD, TUNED, OP, OLD))
