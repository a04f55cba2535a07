"""The limits of reading a log, which bound its memory whatever the log contains, and the variables that raise them."""

import os
import re

from ctrace.inspector.errors import SettingsError
from ctrace.inspector.log.framing import MOST_RECORD

RECORD = "CTRACE_MAX_RECORD"
UNPACKED = "CTRACE_MAX_UNPACKED"
_SIZE = re.compile(r"(\d{1,12})([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
# A limit this low is more likely a typing error than a wish.
_LEAST = 1 << 20
# Counting values costs more than reading a text this short, whatever it contains.
_SMALL = 1 << 20
# In the largest record that is read, one value may stand in so many bytes; see `refuse_many_values`.
_BYTES_PER_VALUE = 32
# A tiny file may grow more than a hundredfold and still harm nobody.
_LEAST_UNPACKED = 64 << 20
_MOST_GROWTH = 100
"""Logs of torch shrink to a sixth or a twentieth; an archive that grows more than a hundredfold is not one of them."""


def longest_record() -> int:
    """Return how many bytes one record may have.

    Raises:
        SettingsError: the variable has no size.
    """
    return _size(RECORD) or MOST_RECORD


def refuse_many_values(text: str | bytes) -> None:
    """Refuse JSON that would take much more memory than its text: each value is an object of 50 to 200 bytes.

    Raises:
        ValueError: it has too many values.
        SettingsError: the variable has no size.
    """
    if len(text) < _SMALL:
        return
    most = longest_record() // _BYTES_PER_VALUE
    found = sum(map(text.count, ",[{" if isinstance(text, str) else (b",", b"[", b"{")))  # type: ignore[arg-type]
    if found > most:
        raise ValueError(
            f"JSON of more than {most:,} values; {RECORD}=1G reads up to {(1 << 30) // _BYTES_PER_VALUE:,}"
        )


def most_unpacked(size: int) -> int:
    """Return how many bytes a compressed file of a size may unpack to.

    Raises:
        SettingsError: the variable has no size.
    """
    return _size(UNPACKED) or max(_LEAST_UNPACKED, _MOST_GROWTH * size)


def _size(name: str) -> int:
    text = os.environ.get(name, "")
    if not text:
        return 0
    found = _SIZE.fullmatch(text.strip())
    number = 0
    if found:
        number = int(found[1]) << _UNITS[found[2].upper()]
    if number < _LEAST:
        raise SettingsError(f"{name} is {text!r:.40}, which is no size", f"write it as {name}=512M or {name}=2G")
    return number
