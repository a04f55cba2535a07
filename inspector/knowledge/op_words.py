"""Short descriptions of torch's ops, as data."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_FUNCTIONS = {
    "torch__dynamo_variables_torch_flat_apply_capture": "a call that AOT traces instead of Dynamo (nonstrict_trace)"
}
"""Functions that are no ops, by the name that FX writes (_dynamo/variables/torch.py, 2.13 and 2.15)."""


@cache
def _words() -> dict[str, str]:
    import yaml  # imported late: only views that describe ops need it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data: dict[str, str] = yaml.load((_FOLDER / "aten.yaml").read_text(encoding="utf-8"), loader)
    return data


def word(op: str) -> str:
    """Describe an op in a few words, by its name without overload, such as `aten.mm`; empty if unknown."""
    return _FUNCTIONS.get(op) or _words().get(op, "")
