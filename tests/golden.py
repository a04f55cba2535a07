"""Compare a screen with the expected one in tests/golden/; `CTRACE_UPDATE_GOLDEN=1 pytest` writes them anew."""

import os
from pathlib import Path

_FOLDER = Path(__file__).parent / "golden"


def assert_golden(name: str, text: str) -> None:
    """Fail, showing both, when `text` is not what tests/golden/<name> holds."""
    path = _FOLDER / name
    if os.environ.get("CTRACE_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; look at both, then CTRACE_UPDATE_GOLDEN=1"
