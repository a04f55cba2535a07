"""Effects of a call: what it prints, logs and warns, and which random numbers it draws."""

import io
import logging
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.proving.digests import digest, digest_of, without_addresses

SEED = 20_011


class Effects(Struct):
    """The effects of one call, complete after the block."""

    printed: str = ""
    logged: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)


@contextmanager
def noting_effects() -> Iterator[Effects]:
    """Record what the block prints, logs and warns, and show none of it."""
    effects = Effects()
    out, err = io.StringIO(), io.StringIO()
    original = logging.Logger.handle

    def handle(self: logging.Logger, record: logging.LogRecord) -> None:
        if record.name.startswith(
            ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "torch._logging")
        ):
            original(self, record)
            return
        effects.logged.append(f"{record.name} {record.levelname}: {without_addresses(record.getMessage())}")

    stdout, stderr = sys.stdout, sys.stderr
    with warnings.catch_warnings(record=True) as caught, patched(logging.Logger, "handle", handle):
        warnings.simplefilter("always")
        sys.stdout, sys.stderr = out, err
        try:
            yield effects
        finally:
            sys.stdout, sys.stderr = stdout, stderr
            effects.printed = without_addresses(out.getvalue() + err.getvalue())
    effects.warned = [f"{each.category.__name__}: {without_addresses(str(each.message))}" for each in caught]


def seed() -> None:
    """Set all generators to a fixed state."""
    import torch

    torch.default_generator.manual_seed(SEED)  # torch.manual_seed also prepares devices that are not used
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(SEED)
    random.seed(SEED)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(SEED)


def random_digest() -> str:
    """Return a digest of the state of all generators."""
    import torch

    parts = [digest(torch.get_rng_state()), repr(random.getstate())]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        parts.append(f"{kind} {keys.tolist()} {rest}")
    if torch.cuda.is_initialized():
        parts += [digest(each) for each in torch.cuda.get_rng_state_all()]
    return digest_of(parts)
