"""The option `--on`: where models run and logs are read."""

from ctrace.inspector.errors import TargetError
from ctrace.inspector.processes.engines import Engine


def engine_of(name: str | None) -> Engine:
    """Return the engine of a name, by default processes on this machine.

    Raises:
        TargetError: there is no such engine.
    """
    try:
        return Engine(name or Engine.PROCESSES)
    except ValueError:
        raise TargetError(f"--on {name}: there is no such engine", f"there are: {', '.join(Engine)}") from None
