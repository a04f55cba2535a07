"""From what a log says of calls of user-written kernels to what a session holds of them."""

from dataclasses import replace

from ctrace.inspector.raw import Raw
from ctrace.inspector.stacks import user_lines
from ctrace.inspector.userkernels import UserKernel, UserKernelLowered, UserKernelWritten

_Call = tuple[str, str, str]


def user_kernels_of(raw: Raw) -> tuple[UserKernel, ...]:
    """List the calls in the order in which Inductor met them; where a graph was lowered again, only the last time."""
    calls: dict[_Call, UserKernel] = {}
    for event in raw.user_kernels:
        match event:
            case UserKernelLowered():
                kernel = replace(event.kernel, lines=user_lines((event.stack,), raw.prefixes))
                calls[kernel.graph, kernel.stage, kernel.operation] = kernel
            case UserKernelWritten():
                key = event.id, event.stage, event.operation
                if key in calls:
                    calls[key] = _written(calls[key], event)
    return tuple(calls.values())


def _written(kernel: UserKernel, event: UserKernelWritten) -> UserKernel:
    parameters = tuple(replace(each, fixed=each.name in event.constants) for each in kernel.parameters)
    return replace(kernel, name=event.name, epilogue=event.epilogue, parameters=parameters)
