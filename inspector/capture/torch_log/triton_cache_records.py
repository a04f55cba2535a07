"""Record whether Triton's cache had a kernel before the run, and whether the autotuner knew its best configuration.

Torch's own entries say neither. Kernels compile in worker processes; the autotuner that holds them comes back and is
prepared here (`CachingAutotuner.precompile`, _inductor/runtime/triton_heuristics.py, 2.11 to 2.13). A kernel's folder
in Triton's cache has the name of its hash (`_base32`, triton/runtime/cache.py, 3.6 and 3.7); those that were there when
the run began are hits.
"""

import base64
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.compile_time import Outcome
from ctrace.inspector.facts.events.compile_time import OwnCacheAsked


class TritonCacheRecords:
    """Knows the kernels that Triton's cache held before the first compilation."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._before = _kernels()
        self._recorded: set[tuple[str, str]] = set()

    def install(self, heuristics: ModuleType, patches: ExitStack) -> None:
        """Record kernels when their autotuner is prepared, until the patches end."""
        autotuner = heuristics.CachingAutotuner
        prepare = autotuner.precompile

        def precompile(kernel: Any, *args: Any, **named: Any) -> Any:
            result = prepare(kernel, *args, **named)
            with self._recorder.watching("what Triton's cache holds"):
                self._record(kernel)
            return result

        patches.enter_context(patched(autotuner, "precompile", precompile))

    def _record(self, kernel: Any) -> None:
        name = str((kernel.inductor_meta or {}).get("kernel_name") or kernel.fn.__name__)
        state = str((getattr(kernel, "autotune_cache_info", None) or {}).get("autotune_cache_state", ""))
        if state in (Outcome.HIT, Outcome.MISS):
            self._write("autotune", name, Outcome(state), None)
        for result in kernel.compile_results:
            hash_ = getattr(getattr(result, "kernel", None), "hash", None)
            if isinstance(hash_, str):
                is_known = _folder_name(hash_) in self._before
                self._write("triton", name, Outcome.HIT if is_known else Outcome.MISS, hash_)

    def _write(self, cache: str, kernel: str, outcome: Outcome, key: str | None) -> None:
        same = cache, key or kernel
        if same not in self._recorded:
            self._recorded.add(same)
            asked = OwnCacheAsked(cache=cache, outcome=outcome, kernel=kernel, stage=current_stage(), key=key)
            self._recorder.add(asked)


def _folder_name(hash_: str) -> str:
    return base64.b32encode(bytes.fromhex(hash_)).decode().rstrip("=")


def _kernels() -> set[str]:
    """Return the names of the folders in Triton's cache; Inductor has one for each device below its own."""
    own = os.environ.get("TRITON_CACHE_DIR")
    if own is not None:
        return _names([Path(own)])
    utils = sys.modules.get("torch._inductor.runtime.cache_dir_utils")
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or (utils and utils.default_cache_dir())
    return _names(sorted(Path(str(folder), "triton").glob("*"))) if folder else set()


def _names(folders: Iterable[Path]) -> set[str]:
    return {each.name for folder in folders if folder.is_dir() for each in folder.iterdir() if each.is_dir()}
