"""Short descriptions of torch's ops, as data."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def _words() -> dict[str, str]:
    import yaml  # imported late: only views that describe ops need it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data: dict[str, str] = yaml.load((_FOLDER / "aten.yaml").read_text(encoding="utf-8"), loader)
    return data


def word(op: str) -> str:
    """Describe an op in a few words, by its name without overload, such as `aten.mm`; empty if unknown."""
    return _words().get(op, "")


def known_ops() -> tuple[str, ...]:
    """List the ops that have a description."""
    return tuple(_words())
