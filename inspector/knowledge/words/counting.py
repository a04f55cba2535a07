"""Counts with nouns: the one place that forms plurals."""

_HISSING = ("s", "x", "z", "ch", "sh")


def plural(noun: str) -> str:
    """Return the plural of a noun: `entries` for `entry`, `passes` for `pass`; only the last word changes."""
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_HISSING) else f"{noun}s"


def named(number: int, noun: str, several: str = "") -> str:
    """Return a noun in the singular or plural, as a number requires; `several` is an irregular plural."""
    return noun if number == 1 else several or plural(noun)


def count(number: int, noun: str, several: str = "") -> str:
    """Return `1 graph`, `2 graphs`, `no graphs`."""
    return f"{number or 'no'} {named(number, noun, several)}"
