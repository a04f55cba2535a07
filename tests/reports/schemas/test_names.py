"""Names, types and enum values of `explain --json` and `check --json` are never renamed or removed.

tests/data/json_names.txt records them, a path and a type or value a line; CTRACE_UPDATE_GOLDEN=1 adds the new ones.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.places import DATA, ROOT

RECORD = DATA / "json_names.txt"
VIEWS = ("explain", "check")


def names(schema: dict[str, Any], path: str) -> frozenset[str]:
    """List each path of a report's schema with its types and enum values."""
    return frozenset(_names(schema, path, schema.get("$defs", {}), frozenset()))


def _names(node: dict[str, Any], path: str, shared: dict[str, Any], inside: frozenset[str]) -> Iterator[str]:
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name not in inside:  # list a recursive shape once
            yield from _names(shared[name], path, shared, inside | {name})
        return
    types = node.get("type", ())
    yield from (f"{path}: {each}" for each in ([types] if isinstance(types, str) else types))
    yield from (f"{path} = {each}" for each in (*node.get("enum", ()), *([node["const"]] if "const" in node else ())))
    below = [(path, each) for each in node.get("anyOf", ())]
    below += [(f"{path}.{name}", each) for name, each in node.get("properties", {}).items()]
    below += [(f"{path}[{index}]", each) for index, each in enumerate(node.get("prefixItems", ()))]
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        below += [(f"{path}{mark}", node[key])] if isinstance(node.get(key), dict) else []
    for at, each in below:
        yield from _names(each, at, shared, inside)


@pytest.mark.parametrize("view", VIEWS)
def test_no_name_type_or_value_is_removed(view: str) -> None:
    schema = json.loads((ROOT / "reports" / "schemas" / f"{view}.json").read_text(encoding="utf-8"))
    today = names(schema, view)
    recorded = set(RECORD.read_text(encoding="utf-8").splitlines())
    if os.environ.get("CTRACE_UPDATE_GOLDEN") == "1" and not os.environ.get("CI"):
        RECORD.write_text("".join(f"{each}\n" for each in sorted(recorded | today)), encoding="utf-8")
    mine = {each for each in recorded if each.startswith((f"{view}.", f"{view}:", f"{view} "))}
    assert len(mine) > 200
    assert sorted(mine - today) == []


def test_a_removed_name_is_found() -> None:
    old = {"type": "object", "properties": {"kind": {"enum": ["break", "skip"]}, "line": {"type": ["integer", "null"]}}}
    new = {"type": "object", "properties": {"kind": {"enum": ["break"]}, "line": {"type": "string"}}}
    assert sorted(names(old, "x") - names(new, "x")) == ["x.kind = skip", "x.line: integer", "x.line: null"]
