"""Events about caches of compiled code, and about the speed of what was compiled."""

from msgspec import Struct

from ctrace.inspector.model.compile_time import CacheLookup, CacheUse, EarlierKey, KeyPart, Speed


class CacheAsked(Struct, frozen=True):
    """Torch asked a cache."""

    lookup: CacheLookup


class CacheStored(Struct, frozen=True):
    """Torch stored what it compiled, or could not."""

    cache: str
    key: str
    is_stored: bool
    why: str = ""
    is_bypass: bool = False
    """Whether torch counts it as a bypass, in addition to the miss before."""


class CacheKeyed(Struct, frozen=True):
    """The components of a cache key, where torch's own record leaves them out."""

    cache: str
    key: str
    components: tuple[KeyPart, ...]


class CachesFound(Struct, frozen=True):
    """Which caches the run could use."""

    use: CacheUse


class EarlierKeyFound(Struct, frozen=True):
    """A key of an earlier run that is nearest to a missed one."""

    earlier: EarlierKey


class SpeedMeasured(Struct, frozen=True):
    """Eager against compiled, measured after the run."""

    speed: Speed


CompileTimeEvent = CacheAsked | CacheStored | CacheKeyed | CachesFound | EarlierKeyFound | SpeedMeasured
