"""Plain ASCII for the signs in our screens and messages, for streams whose encoding lacks them."""

import unicodedata
from functools import lru_cache

_EQUIVALENTS = str.maketrans({
    "…": "...", "·": "-", "•": "*", "●": "*", "×": "x", "µ": "u", "°": " deg", "–": "-", "—": "-", "\u2212": "-",
    "\u2018": "'", "\u2019": "'", "“": '"', "”": '"', "→": "->", "←": "<-", "↔": "<->", "⇒": "=>", "↑": "^", "↓": "v",
    "▸": ">", "▶": ">", "◀": "<", "▲": "^", "▼": "v", "✓": "+", "✔": "+", "✗": "x", "✘": "x", "≤": "<=", "≥": ">=",
    "≠": "!=", "≈": "~", "±": "+-", "²": "^2", "³": "^3", "∞": "inf", "\u00a0": " ",
})  # fmt: skip


def equivalent(text: str) -> str:
    """Return text in ASCII: signs as a similar one, other letters as Python writes them in a string."""
    return "".join(map(_of, text.translate(_EQUIVALENTS)))


@lru_cache(maxsize=4096)
def _of(letter: str) -> str:
    if letter.isascii():
        return letter
    name = unicodedata.name(letter, "")
    if name.startswith("BOX DRAWINGS"):
        is_across, is_down = (any(word in name for word in words) for words in (_ACROSS, _DOWN))
        if is_across == is_down:
            return "+"
        return "-" if is_across else "|"
    if name.startswith("BRAILLE PATTERN"):  # a progress spinner
        return "*"
    if name.endswith(("BLOCK", "EIGHTHS")) or " SHADE" in name:  # a bar
        return "#"
    return letter.encode("ascii", "backslashreplace").decode()


_ACROSS = ("HORIZONTAL", "LEFT", "RIGHT")
_DOWN = ("VERTICAL", "UP", "DOWN")
