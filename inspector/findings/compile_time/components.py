"""Read the components of a cache key, which a large log keeps until a view needs them."""

from ctrace.inspector.facts.compile_time import CacheLookup, KeyPart
from ctrace.inspector.log.decode.decode_compile_time import components_in


def components_of(lookup: CacheLookup) -> tuple[KeyPart, ...]:
    """Return the components of a look-up's key.

    Raises:
        RunError: they are in a log that changed since it was read.
    """
    if lookup.components or lookup.record is None:
        return lookup.components
    return components_in(lookup.record.read())
