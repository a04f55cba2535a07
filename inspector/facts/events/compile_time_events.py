"""Events about caches of compiled code, and about the speed of what was compiled."""

from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.facts.compile_time import CacheLookup, LookupOutcome
from ctrace.inspector.facts.wire import MAYBE_COMPILATION, Record


class CacheAsked(Struct, frozen=True):
    """Torch asked a cache."""

    lookup: CacheLookup


class OwnCacheAsked(Record, frozen=True, kw_only=True):
    """Torch asked a cache of which it records nothing: Triton's or the autotuner's."""

    KIND: ClassVar[str] = "cache"
    graph: str | None = MAYBE_COMPILATION
    cache: str
    outcome: LookupOutcome
    kernel: str | None = None
    stage: str | None = None
    key: str | None = None
    reason: str = ""

    @property
    def lookup(self) -> CacheLookup:
        """Return it as any other look-up."""
        return CacheLookup(
            cache=self.cache,
            outcome=self.outcome,
            graph=self.graph,
            stage=self.stage,
            key=self.key,
            reason=self.reason,
            kernel=self.kernel,
        )


class CacheStored(Record, frozen=True):
    """Torch stored what it compiled, or could not."""

    KIND: ClassVar[str] = "cache_stored"
    cache: str
    key: str
    is_stored: bool = field(name="stored")
    why: str = ""
    is_bypass: bool = field(name="bypassed", default=False)
    """Whether torch counts it as a bypass, in addition to the miss before."""


class CacheKeyed(Record, frozen=True):
    """The components of a cache key, where torch's own record leaves them out."""

    KIND: ClassVar[str] = "cache_key"
    cache: str
    key: str
    components: tuple[str, ...]
    """As torch words them; `log/decode_compile_time.py` reads them."""
