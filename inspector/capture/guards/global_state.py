"""Find the differences between torch's global state and the state in which a graph was compiled.

Source: `GlobalStateGuard` (torch/csrc/dynamo/guards.cpp, 2.11 to 2.13): `reason()` names what changed, and the
guard's text contains the old state as JSON.
"""

import json
import re
from typing import Any

_DTYPES = {5: "torch.float16", 6: "torch.float32", 7: "torch.float64", 15: "torch.bfloat16"}
"""c10::ScalarType of the dtypes that can be the default."""
_AUTOCAST = re.compile(r"autocast\(\w+\)_(?P<what>enabled|dtype)")


def changes(reason: str, guarded: str) -> list[str]:
    """Return one sentence per change, from torch's reason (`GLOBAL_STATE changed: a b`) and the guard's text."""
    from torch._C._dynamo.guards import GlobalStateGuard

    before = _state(guarded.partition("against ")[2])
    now = _state(str(GlobalStateGuard().__getstate__()))
    names = reason.partition("changed:")[2].split()
    before, now = {**before, **_of_autocast(names, before, now)}, {**now, **_of_autocast(names, now, before)}
    return [f"GLOBAL_STATE changed: {name}{_values(name, before, now)}" for name in names] or [reason]


def _state(text: str) -> dict[str, Any]:
    try:
        state = json.loads(text.partition("  #")[0])
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def _of_autocast(names: list[str], state: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the autocast settings in `state` that differ from `other`, keyed by their names in torch's reason.

    A state lists them by device, in the order of the reason.
    """
    found: dict[str, Any] = {}
    for what in ("enabled", "dtype"):
        changed = [name for name in names if (match := _AUTOCAST.fullmatch(name)) and match["what"] == what]
        mine, others = (each.get("autocast_state", {}).get(what, []) for each in (state, other))
        values = [value for value, old in zip(mine, others, strict=False) if value != old]
        if len(values) == len(changed):
            found.update(zip(changed, values, strict=True))
    return found


def _values(name: str, before: dict[str, Any], now: dict[str, Any]) -> str:
    if name not in before or name not in now or before[name] == now[name]:
        return ""
    return f". expected {_shown(name, before[name])}, actual {_shown(name, now[name])}"


def _shown(name: str, value: Any) -> str:
    return _DTYPES.get(value, str(value)) if name.endswith("dtype") else str(value)
