"""Where a compilation's function is."""

from ctrace.inspector.raw import Raw
from ctrace.inspector.sites import resumed


def place_of(raw: Raw, compile_id: str) -> tuple[str, str, int, int | None]:
    """Function, file, first line and, for a resume function, the line it goes on at.

    From the first of: the bytecode hook, Dynamo's start entry, another compilation of the same code, the metrics.
    """
    if seen := raw.bytecode.get(compile_id):
        function, at = resumed(seen.name)
        return function, seen.file, seen.line, at
    if (start := raw.starts.get(compile_id)) and start.stack:
        frame = start.stack[-1]
        function, at = resumed(str(frame["name"]))
        return function, raw.files.get(frame["filename"], "?"), frame["line"], at
    frame_id = compile_id.partition("/")[0]
    for other in raw.seen:
        if other != compile_id and other.startswith(f"{frame_id}/") and (other in raw.bytecode or other in raw.starts):
            return place_of(raw, other)
    values = raw.metrics[compile_id].values if compile_id in raw.metrics else {}
    function, at = resumed(values.get("co_name") or "?")
    return function, values.get("co_filename") or "?", values.get("co_firstlineno") or 0, at
