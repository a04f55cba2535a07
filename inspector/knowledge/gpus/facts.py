"""Validate the facts of a table entry and build a GPU from them."""

import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ctrace.inspector.errors import TargetError
from ctrace.inspector.files.typed_json import required_fields
from ctrace.inspector.knowledge.gpus.gpu import FORMATS, VECTOR_FORMATS, TargetGpu
from ctrace.inspector.knowledge.gpus.yaml_file import entries_of, refuse_unknown, shown

_SIZES = {
    "processors": (1, 100_000),
    "registers": (1024, 1 << 24),
    "threads": (32, 1 << 16),
    "threads_per_block": (32, 1 << 16),
    "warp": (1, 1024),
    "shared": (1024, 1 << 30),
    "shared_per_block": (1024, 1 << 30),
    "shared_per_block_optin": (1024, 1 << 30),
    "memory": (1 << 20, 1 << 50),
    "l2": (0, 1 << 40),
}
"""Minimum and maximum of each fact that is an integer."""
_SPEEDS = {"clock": (1e6, 1e12), "bandwidth": (1e6, 1e18)}
_RATES = {"rates": FORMATS, "vector_rates": VECTOR_FORMATS}
_PEAK = (1e6, 1e21)
FACTS = tuple(each for each in TargetGpu.__struct_fields__ if each not in ("name", "sources"))
_KEYS = ("extends", *FACTS, "sources")
_NUMBER = re.compile(r"\d{1,30}(\.\d{1,30})?([eE]\+?\d{1,3})?")
"""Numbers as text: PyYAML parses `1.98e9` as text."""
_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,2})")
_SHARED = "CUDA C++ Programming Guide, by compute capability (as code: NVIDIA/cccl 004ad19, arch_traits.h)"
_BY_CAPABILITY = ("registers", "threads", "shared", "shared_per_block", "shared_per_block_optin")
_OF_ALL = {"threads_per_block": 1024, "warp": 32}
_HERE = Path(__file__).parent


def check_facts(entry: Mapping[str, Any], where: str, source: str = "") -> dict[str, Any]:
    """Return the typed facts of an entry and their `sources`; `source` is the default.

    Raises:
        TargetError: a fact is unknown or has an invalid value.
    """
    refuse_unknown(entry, _KEYS, where)
    facts = {key: _checked(key, value, where) for key, value in entry.items()}
    defaults = {key: source for key in facts if key in FACTS and source}
    return {**facts, "sources": {**defaults, **_sources(entry.get("sources"), where)}}


def override_facts(lower: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Override the facts of an extended entry with an entry's own facts.

    Rates are merged by format, unless the entry's rates are null. A different compute capability drops the facts that
    depend on it.
    """
    if own.get("capability", lower.get("capability")) != lower.get("capability"):
        lower = {key: value for key, value in lower.items() if key not in _BY_CAPABILITY}
    merged = {**lower, **own}
    merged["sources"] = {**(lower.get("sources") or {}), **own["sources"]}
    for key in (each for each in _RATES if each not in own or own[each] is not None):
        merged[key] = {**(lower.get(key) or {}), **own.get(key, {})}
        if own.get(key) and set(merged[key]) > set(own[key]):
            others = (lower.get("sources") or {}).get(key, "not stated")
            merged["sources"][key] = f"{', '.join(own[key])}: {merged['sources'][key]}; others: {others}"
    return merged


def build_gpu(name: str, facts: Mapping[str, Any], where: str) -> TargetGpu:
    """Build a GPU from checked facts, with defaults for its compute capability.

    Raises:
        TargetError: a fact is missing, or two contradict each other.
    """
    full = {**facts, "sources": dict(facts["sources"])}
    full |= {key: {} for key in _RATES if full.get(key) is None}
    for key, value in _by_capability(full.get("capability")).items():
        if key not in full:
            full[key] = value
            full["sources"][key] = _SHARED
    missing = [key for key in required_fields(TargetGpu) if key not in full and key != "name"]
    if missing:
        raise TargetError(
            f"{where} lacks {', '.join(missing)}", "add what is missing, or add extends with a GPU's name"
        )
    full.pop("extends", None)
    gpu = TargetGpu(name=name, **full)
    _refuse_contradictions(gpu, where)
    return gpu


def _refuse_contradictions(gpu: TargetGpu, where: str) -> None:
    pairs = (("shared_per_block", "shared_per_block_optin"), ("shared_per_block_optin", "shared"), ("l2", "memory"))
    for less, more in pairs:
        if getattr(gpu, less) > getattr(gpu, more):
            raise TargetError(f"{where}: {less} is greater than {more}", "correct one of them; both are in bytes")


@cache
def _capabilities() -> dict[str, dict[str, int]]:
    return entries_of(_HERE / "capabilities.yaml", ours=True)


def _by_capability(capability: tuple[int, int] | None) -> Mapping[str, int]:
    known = {} if capability is None else _capabilities().get(f"{capability[0]}.{capability[1]}", {})
    return {**known, **_OF_ALL}


def _checked(key: str, value: object, where: str) -> object:
    if value is None and key in (*_SPEEDS, *_RATES, "sources", "extends"):
        return None
    if key in _SIZES:
        return _size(key, value, where)
    if key in _SPEEDS:
        return _number(key, value, _SPEEDS[key], where)
    if key in _RATES:
        return _rates(key, value, where)
    if key == "capability":
        return _capability(value, where)
    if key == "sources":
        return value
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        raise TargetError(f"{where}: {key} is {shown(value)}, not a short text", f'write it as {key}: "..."')
    return value.strip()


def _size(key: str, value: object, where: str) -> int:
    low, high = _SIZES[key]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        what = f"{where}: {key} is {shown(value)}"
        raise TargetError(what, f"write a whole number from {low} to {high}{_unit(key)}")
    return value


def _unit(key: str) -> str:
    return " (bytes)" if key.startswith(("shared", "memory", "l2")) else ""


def _number(what: str, value: object, limits: tuple[float, float], where: str) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not limits[0] <= value <= limits[1]:
        raise TargetError(f"{where}: {what} is {shown(value)}", f"write a number from {limits[0]:g} to {limits[1]:g}")
    return float(value) if math.isfinite(value) else limits[1]


def _rates(key: str, value: object, where: str) -> dict[str, float]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise TargetError(f"{where}: {key} is {shown(value)}, not a table", f"write it as {key}: {{float64: 1e12}}")
    refuse_unknown(value, _RATES[key], f"{where}: {key}")
    return {name: _number(f"{key} of {name}", rate, _PEAK, where) for name, rate in value.items()}


def _capability(value: object, where: str) -> tuple[int, int]:
    text = ".".join(map(str, value[:3])) if isinstance(value, list | tuple) else str(value)
    found = _CAPABILITY.fullmatch(text) if not isinstance(value, bool) else None
    if found is None or not 5 <= int(found[1]) <= 99:
        what = f"{where}: capability is {shown(value)}"
        raise TargetError(what, 'write the compute capability as "9.0"')
    return int(found[1]), int(found[2])


def _sources(value: object, where: str) -> dict[str, str]:
    """Return the source of each fact; a key may list several facts, separated by commas."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        todo = "write it as sources: {memory: where the value is from}"
        raise TargetError(f"{where}: sources is not a table of texts", todo)
    found = {key.strip(): text for keys, text in value.items() for key in keys.split(",")}
    refuse_unknown(found, FACTS, f"{where}: sources")
    return found
