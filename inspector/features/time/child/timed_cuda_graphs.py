"""Record why torch skips CUDA graphs; torch decides this while it compiles, not in the timed calls.

Torch passes each reason to `log_cudagraph_skip_and_bump_counter` (_inductor/cudagraph_utils.py, 2.11 to 2.13). The
modules that decide import this function by name, so it is patched in each of them.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ctrace.inspector.capture.core.patch import patched

_FUNCTION = "log_cudagraph_skip_and_bump_counter"
_MODULES = ("cudagraph_utils", "output_code", "compile_fx", "cudagraph_trees")
_SLOW_PATH = "Unable to hit fast path of CUDAGraphs"
"""How _inductor/cudagraph_trees.py (2.11 to 2.15) warns of a call that runs without its CUDA graph."""


class Skips:
    """The reasons, each with the number of skips."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record reasons in this block. If torch has moved the function, only torch's counter shows that it skips."""
        import torch._inductor.compile_fx
        import torch._inductor.cudagraph_trees
        import torch._inductor.cudagraph_utils
        import torch._inductor.output_code  # noqa: F401

        with ExitStack() as active:
            original = getattr(sys.modules["torch._inductor.cudagraph_utils"], _FUNCTION, None)

            def record_skip(message: str) -> Any:
                self.reasons[str(message)] += 1
                return None if original is None else original(message)

            for name in _MODULES:
                module = sys.modules[f"torch._inductor.{name}"]
                if hasattr(module, _FUNCTION):
                    active.enter_context(patched(module, _FUNCTION, record_skip))
            active.enter_context(patched(warnings, "showwarning", self._noting_warning(warnings.showwarning)))
            yield

    def _noting_warning(self, original: Any) -> Any:
        def shown(message: Any, *arguments: Any, **named: Any) -> None:
            if _SLOW_PATH in str(message):
                self.reasons[str(message)] += 1
            else:
                original(message, *arguments, **named)

        return shown
