"""What to do about a break or a cause, as data: `breaks.yaml` by gb id, `causes.yaml` by kind."""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def advice(table: str) -> dict[str, dict[str, str]]:
    """Load a table, `breaks` or `causes`: key -> `why` and `fix`, one plain sentence each."""
    import yaml  # only when there is something to advise on: a healthy model's screen does not wait for it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data: dict[str, dict[str, str]] = yaml.load((_FOLDER / f"{table}.yaml").read_text(encoding="utf-8"), loader)
    return data
