"""Keep what torch prints while it autotunes out of the user's terminal, and record it instead.

Torch writes its table of choices and their statistics to stderr (2.11 to 2.15, _inductor/select_algorithm.py:
`log_results`, `_log_autotune_choices_stats`). Both only print and log, after the choices were timed.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr
from functools import wraps
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.imports import watch_imports
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.features.time.events import AutotuningPrinted, Event


@contextmanager
def autotuning_recorded(record: Callable[[Event], None]) -> Iterator[None]:
    """Record what torch prints of autotuning in this block; a torch that prints it elsewhere prints it as usual."""
    with ExitStack() as patches:

        def install(module: ModuleType) -> None:
            for owner, name in (
                (module.AlgorithmSelectorCache, "log_results"),
                (module, "_log_autotune_choices_stats"),
            ):
                original = getattr(owner, name, None)
                if original is not None:
                    patches.enter_context(patched(owner, name, _recorded(original, record, owner)))

        when = patches.enter_context(watch_imports())
        when("torch._inductor.select_algorithm", install)
        yield


def _recorded(original: Callable[..., Any], record: Callable[[Event], None], owner: Any) -> Any:
    @wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        text = io.StringIO()
        try:
            with redirect_stderr(text):
                return original(*args, **kwargs)
        finally:
            if text.getvalue():
                record(AutotuningPrinted(text.getvalue()))

    return staticmethod(recorded) if isinstance(owner, type) else recorded
