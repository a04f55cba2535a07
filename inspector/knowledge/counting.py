"""Counts, bytes and names as text: the one place that forms plurals, and that chooses the unit of bytes.

Also parts of sentences that are said only if there is something to say, and sets of names.
"""

from collections.abc import Sequence

# After these, English speaks the plural as one more syllable, and writes it with an e.
_HISSING = ("s", "x", "z", "ch", "sh")


def plural(noun: str) -> str:
    """Return the plural of a noun: `entries` for `entry`, `passes` for `pass`; only the last word changes."""
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    if noun.endswith(_HISSING):
        return f"{noun}es"
    return f"{noun}s"


def named(number: int, noun: str, several: str = "") -> str:
    """Return a noun in the singular or plural, as a number requires; `several` is an irregular plural."""
    if number == 1:
        return noun
    return several or plural(noun)


def count(number: int, noun: str, several: str = "") -> str:
    """Return `1 graph`, `2 graphs`, `no graphs`."""
    return f"{number or 'no'} {named(number, noun, several)}"


def memory(size: int) -> str:
    """Write bytes as `512 B`, `4.0 KiB`, `1.5 GiB`."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    # Rounded to one digit, 1023.95 would show as 1024.0 of a unit in place of 1.0 of the next.
    while value >= 1023.95 and len(units) > 1:
        value /= 1024
        units.pop(0)
    if units[0] == "B":
        return f"{size} B"
    return f"{value:.1f} {units[0]}"


def framed(before: str, text: object, after: str = "") -> str:
    """Put signs or words around text, such as ` (forward)`; empty if there is no text."""
    if text is None or text == "":
        return ""
    return f"{before}{text}{after}"


def repeated(number: int, before: str, after: str = "") -> str:
    """Write how often something is there, such as ` ×3`; empty for once."""
    if number > 1:
        return f"{before}{number}{after}"
    return ""


def first_of(names: Sequence[str], most: int) -> str:
    """Join the first names with commas, and show by `…` that there are more."""
    if len(names) > most:
        return f"{', '.join(names[:most])}, …"
    return ", ".join(names)


def first_and_more(items: Sequence[object], most: int) -> str:
    """Join the first items with commas, and say if there are more: `0, 1, 2 and more`."""
    shown = ", ".join(map(str, items[:most]))
    if len(items) > most:
        return f"{shown} and more"
    return shown


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())
