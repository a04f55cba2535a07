"""Compare cache keys by their components, which a large log keeps until a view needs them."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from msgspec import Struct

from ctrace.inspector.facts.compile_time import CacheLookup, EarlierKey, KeyDifference, KeyPart
from ctrace.inspector.log.decode_compile_time import components_in

# Two long texts are shown from shortly before their first difference, so that its place can be recognized.
_CONTEXT = 30
_SHOWN = 90
_BEYOND = ("a different value, with the same text in torch's log", "a different value")


class KnownKey(Struct, frozen=True):
    """A key of an earlier run; the cache still holds it, unless the cache was emptied."""

    run: str
    cache: str
    graph: str | None
    stage: str | None
    key: str
    components: tuple[KeyPart, ...]


def nearest(lookup: CacheLookup, known: Sequence[KnownKey]) -> EarlierKey | None:
    """Return how a missed key differs from the most similar earlier key; None: there is no earlier key.

    Keys of the same graph part come first, then those with the fewest differences, then the newest.
    """
    if lookup.key is None:
        return None
    same = [each for each in known if each.cache == lookup.cache and each.stage == lookup.stage]
    of_graph = [each for each in same if each.graph == lookup.graph] or same
    if not of_graph:
        return None
    best = min(reversed(of_graph), key=lambda each: (each.key != lookup.key, len(_changed(each, lookup))))
    return EarlierKey(lookup.cache, lookup.key, best.run, best.key, differences(best.components, components_of(lookup)))


def _changed(known: KnownKey, lookup: CacheLookup) -> list[str]:
    before, after = _by_name(known.components), _by_name(components_of(lookup))
    names = dict.fromkeys((*after, *before))
    return [name for name in names if _digest(before.get(name)) != _digest(after.get(name))]


def _digest(part: KeyPart | None) -> str | None:
    return None if part is None else part.digest


def _by_name(components: Iterable[KeyPart]) -> dict[str, KeyPart]:
    return {each.name: each for each in components}


def differences(before: Iterable[KeyPart], after: Iterable[KeyPart]) -> tuple[KeyDifference, ...]:
    """Return the components that differ between two keys, with the texts from the first difference on."""
    old, new = _by_name(before), _by_name(after)
    found = []
    for name in dict.fromkeys((*new, *old)):
        was, now = old.get(name), new.get(name)
        if _digest(was) != _digest(now):
            before_text = None if was is None else was.text
            after_text = None if now is None else now.text
            apart = _BEYOND if before_text == after_text else _apart(before_text, after_text)
            found.append(KeyDifference(name, *apart))
    return tuple(found)


def _apart(was: str | None, now: str | None) -> tuple[str | None, str | None]:
    """Cut two texts to the first line that differs, from the position where the two differ."""
    if was is None or now is None:
        return _cut(was, 0), _cut(now, 0)
    lines = zip_longest(was.splitlines(), now.splitlines(), fillvalue="")
    old, new = next(((one.strip(), two.strip()) for one, two in lines if one != two), (was, now))
    pairs = enumerate(zip(old, new, strict=False))
    same = next((at for at, (one, two) in pairs if one != two), min(len(old), len(new)))
    begin = max(same - _CONTEXT, 0) if max(len(old), len(new)) > _SHOWN else 0
    return _cut(old, begin), _cut(new, begin)


def _cut(text: str | None, begin: int) -> str | None:
    if text is None:
        return None
    piece = " ".join(text[begin : begin + _SHOWN].split())
    if begin:
        piece = f"… {piece}"
    return f"{piece} …" if len(text) > begin + _SHOWN else piece


def components_of(lookup: CacheLookup) -> tuple[KeyPart, ...]:
    """Return the components of a look-up's key.

    Raises:
        RunError: they are in a log that changed since it was read.
    """
    if lookup.components or lookup.record is None:
        return lookup.components
    return components_in(lookup.record.read())
