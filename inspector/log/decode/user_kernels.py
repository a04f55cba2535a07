"""Decode our own entries about Triton kernels that the user wrote; `dispatch.decode` lists the errors."""

from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.user_kernels import (
    Epilogue,
    Parameter,
    ParameterKind,
    TritonOp,
    UserKernel,
    UserKernelLowered,
    UserKernelWritten,
)
from ctrace.inspector.log.fields import Fields


def user_kernel_lowered(compile_id: str, data: Fields) -> UserKernelLowered:
    """Decode one call of a kernel."""
    kernel = UserKernel(
        graph=compile_id,
        stage=Stage(data.text("stage")),
        operation=data.text("operation"),
        kernel=data.text("kernel"),
        file=data.text("file"),
        line=data.integer("line"),
        device=data.text("device"),
        decorators=data.texts("decorators"),
        parameters=tuple(map(_parameter, data.objects("parameters"))),
        assumed=data.maybe_text("assumed"),
        grids=tuple(each.texts("sizes") for each in data.objects("grids")),
        configs=tuple(each.table("sets") for each in data.objects("configs")),
        key=data.texts("key"),
        heuristics=data.texts("heuristics"),
        restored=data.texts("restored"),
        zeroed=data.texts("zeroed"),
        flops=data.flag("flops"),
        op=None if data.is_null("op") else _op(data.object("op")),
    )
    return UserKernelLowered(compile_id, kernel, data.text("stack"))


def user_kernel_written(compile_id: str, data: Fields) -> UserKernelWritten:
    """Decode the code that Inductor generated for a call."""
    return UserKernelWritten(
        id=compile_id,
        stage=Stage(data.text("stage")),
        operation=data.text("operation"),
        name=data.text("name"),
        constants=data.table("constants"),
        epilogue=Epilogue(data.text("epilogue")),
    )


def _parameter(data: Fields) -> Parameter:
    return Parameter(
        name=data.text("name"),
        kind=ParameterKind(data.text("kind")),
        constexpr=data.flag("constexpr"),
        value=data.text("value"),
        dtype=data.text("dtype"),
        shape=data.texts("shape"),
        written=_maybe_flag(data, "written"),
        read=_maybe_flag(data, "read"),
    )


def _maybe_flag(data: Fields, name: str) -> bool | None:
    return None if data.is_null(name) else data.flag(name)


def _op(data: Fields) -> TritonOp:
    return TritonOp(
        name=data.text("name"),
        file=data.text("file"),
        line=data.integer("line"),
        fallbacks=data.texts("fallbacks"),
        autograd=data.flag("autograd"),
        flops=data.flag("flops"),
        mutates=data.texts("mutates"),
    )
