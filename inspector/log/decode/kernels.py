"""Decode the code of a graph part; `dispatch.decode` lists the errors."""

from ctrace.inspector.facts.events.kernels import CodeWritten, TorchCodeSeen
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.log.fields import Fields
from ctrace.inspector.log.reader import Entry


def code_written(entry: Entry) -> CodeWritten | TorchCodeSeen | None:
    """Decode the code of a graph part; a log that only torch wrote does not name the part."""
    data = Fields(entry.data, entry.kind)
    stage = data.maybe_text("stage")
    if entry.compile_id is None:
        return None
    if stage is None:
        return TorchCodeSeen(entry.compile_id, entry.text)
    return CodeWritten(entry.compile_id, Stage(stage), entry.text)
