"""What a terminal or a CI system would obey in a text that it should only show."""

import re
import unicodedata

_COMMAND = re.compile(r"(?m)^[^\S\n]*::.*|##\w*\[.*")
_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def obeyed(text: str) -> list[str]:
    """List letters that are not seen, and commands; written again here, so that `escape.py` is not its own judge."""
    letters = [ascii(each) for each in set(text) - {"\n"} if unicodedata.category(each) in _HIDDEN]
    return letters + [match[0][:100] for match in _COMMAND.finditer(text)]
