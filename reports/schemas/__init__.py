"""JSON Schemas of what the commands print with `--json`; `make schemas` generates the files from the code."""

import difflib
from pathlib import Path

from ctrace.inspector.errors import TargetError
from ctrace.reports.escape import SafeText, plain_text

_FOLDER = Path(__file__).parent


def schema_names() -> list[str]:
    """Return the commands that have a schema."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def render_schema(command: str) -> SafeText:
    """Return the JSON Schema of a command's output.

    Raises:
        TargetError: No schema has that name.
    """
    known = schema_names()
    if command not in known:
        near = difflib.get_close_matches(command.lower()[:100], known, 1)
        todo = f"did you mean `ctrace schema {near[0]}`?" if near else f"name one of: {', '.join(known)}"
        raise TargetError(f"no command `{command[:100]}` with --json", todo)
    return plain_text((_FOLDER / f"{command}.json").read_text(encoding="utf-8"))
