"""Short plain words for torch's ops, as data."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def _words() -> dict[str, str]:
    import yaml  # only where somebody asks for words

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data: dict[str, str] = yaml.load((_FOLDER / "aten.yaml").read_text(encoding="utf-8"), loader)
    return data


def word(op: str) -> str:
    """Say in a few words what an op does, by its name without overload, as `aten.mm`; empty: not known."""
    return _words().get(op, "")


def known_ops() -> tuple[str, ...]:
    """List the ops that have words."""
    return tuple(_words())
