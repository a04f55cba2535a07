"""Write the GPUs that `--target` accepts as JSON, with the names and units of the table."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict

from ctrace.inspector.knowledge.gpus.gpu_table import Listed
from ctrace.reports.escape import Document, json_document


def render_targets(table: Iterable[Listed]) -> Document:
    """Write all GPUs as a list."""
    return json_document([_data(each) for each in table])


def render_target(listed: Listed) -> Document:
    """Write one GPU as an object."""
    return json_document(_data(listed))


def _data(listed: Listed) -> dict[str, Any]:
    facts = asdict(listed.gpu)
    for table in ("rates", "vector_rates", "sources"):
        facts[table] = dict(facts[table])
    capability = ".".join(map(str, listed.gpu.capability))
    return {**facts, "capability": capability, "file": listed.file, "replaces": listed.replaces}
