"""GPUs that code can be emitted for, as JSON: names and units of the table."""

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from ctrace.inspector.gpus.gpu import TargetGpu
from ctrace.inspector.gpus.table import Listed


def render_targets(table: Iterable[Listed]) -> str:
    """Write all GPUs as a list."""
    return json.dumps([_data(each) for each in table], indent=2) + "\n"


def render_target(listed: Listed) -> str:
    """Write one GPU as an object."""
    return json.dumps(_data(listed), indent=2) + "\n"


def _data(listed: Listed) -> dict[str, Any]:
    facts = {each.name: getattr(listed.gpu, each.name) for each in fields(TargetGpu)}
    for table in ("rates", "vector_rates", "sources"):
        facts[table] = dict(facts[table])
    capability = ".".join(map(str, listed.gpu.capability))
    return {**facts, "capability": capability, "file": listed.file, "replaces": listed.replaces}
