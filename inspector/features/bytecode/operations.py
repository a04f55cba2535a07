"""The supported instructions of Python 3.11 to 3.13."""

from ctrace.inspector.facts.bytecode_facts import Code
from ctrace.inspector.features.bytecode import ops_containers, ops_stack, ops_step
from ctrace.inspector.features.bytecode.symbolic_machine import Machine, Operation, Placeholders, StopError, Traced

VERSIONS = ("3.11", "3.12", "3.13")

OPERATIONS: dict[str, Operation] = {
    **ops_stack.OPERATIONS,
    **ops_step.STEP_OPERATIONS,
    **ops_containers.ITEM_OPERATIONS,
    **ops_containers.BUILD_OPERATIONS,
    **ops_step.CALL_OPERATIONS,
    **ops_step.FLOW_OPERATIONS,
}


def traced(code: Code, placeholders: Placeholders = frozenset()) -> Traced:
    """Execute a code object symbolically; raise StopError with the reason if it does something unsupported."""
    if code.python not in VERSIONS:
        msg = f"Bytecode of Python {code.python} is not supported."
        raise StopError(msg)
    try:
        return Machine(code, OPERATIONS, placeholders).traced()
    except IndexError as error:
        msg = "The bytecode refers to a name, constant or variable that its tables do not contain."
        raise StopError(msg) from error
