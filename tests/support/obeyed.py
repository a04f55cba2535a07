"""Find text that a terminal or a CI system would obey instead of showing."""

import re
import unicodedata

_COMMAND = re.compile(r"(?m)^[^\S\n]*::.*|##\w*\[.*")
_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def obeyed(text: str) -> list[str]:
    """List invisible letters and commands; independent of `escape.py`, which this checks."""
    letters = [ascii(each) for each in set(text) - {"\n"} if unicodedata.category(each) in _HIDDEN]
    return letters + [match[0][:100] for match in _COMMAND.finditer(text)]
