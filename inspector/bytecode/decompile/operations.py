"""All instructions that are known, from Python 3.11 to 3.13."""

from ctrace.inspector.bytecode.decompile import ops_build, ops_call, ops_flow, ops_items, ops_stack, ops_step
from ctrace.inspector.bytecode.decompile.machine import Machine, Operation, Placeholders
from ctrace.inspector.bytecode.decompile.values import StopError, Traced
from ctrace.inspector.model.bytecode import Code

VERSIONS = ("3.11", "3.12", "3.13")

OPERATIONS: dict[str, Operation] = {
    **ops_stack.OPERATIONS,
    **ops_step.OPERATIONS,
    **ops_items.OPERATIONS,
    **ops_build.OPERATIONS,
    **ops_call.OPERATIONS,
    **ops_flow.OPERATIONS,
}


def traced(code: Code, placeholders: Placeholders = frozenset()) -> Traced:
    """Execute a code on symbols; StopError says what it does that is not known."""
    if code.python not in VERSIONS:
        msg = f"Bytecode of Python {code.python} is not known."
        raise StopError(msg)
    try:
        return Machine(code, OPERATIONS, placeholders).traced()
    except IndexError as error:
        msg = "The bytecode names something that its tables do not have."
        raise StopError(msg) from error
