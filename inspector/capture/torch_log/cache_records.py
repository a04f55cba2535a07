"""Record what torch's own entries leave out about caches: components of AOTAutograd keys, what is stored, settings.

Sources: `_get_debug_lines_for_cache_key`, `AOTAutogradCache` (_functorch/_aot_autograd/autograd_cache.py) and
`FxGraphCache` (_inductor/codecache.py), 2.11 to 2.13. Before 2.13, torch's entries have the components already.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.source import Source, When
from ctrace.inspector.capture.torch_log.triton_cache_records import TritonCacheRecords
from ctrace.inspector.facts.compile_time import CacheUse
from ctrace.inspector.facts.events.compile_time import CacheStored

_SWITCHES = {
    "fx_graph": ("torch._inductor.config", "fx_graph_cache"),
    "aot_autograd": ("torch._functorch.config", "enable_autograd_cache"),
    "autotune": ("torch._inductor.config", "autotune_local_cache"),
    "precompile": ("torch._dynamo.config", "caching_precompile"),
}
"""Torch's setting of each cache (2.11 to 2.15)."""


def cache_records(kind: str) -> Source:
    """Make the source for a run with caches: `private` or `user`."""

    @contextmanager
    def source(recorder: Recorder, when: When) -> Iterator[None]:
        # Once more at the end, with torch's settings; a run that crashes has no end.
        recorder.add(CacheUse(kind, os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")))
        with ExitStack() as patches:
            when("torch._functorch._aot_autograd.autograd_cache", lambda module: _aot(recorder, module, patches))
            when("torch._inductor.codecache", lambda module: _fx(recorder, module, patches))
            when(
                "torch._inductor.runtime.triton_heuristics",
                lambda module: TritonCacheRecords(recorder).install(module, patches),
            )
            try:
                yield
            finally:
                with recorder.watching("which caches were on"):
                    recorder.add(CacheUse(kind, _folder(), _switched_off()))

    return source


def _folder() -> str:
    return os.environ.get("TORCHINDUCTOR_CACHE_DIR") or _default_folder()


def _default_folder() -> str:
    utils = sys.modules.get("torch._inductor.runtime.cache_dir_utils")
    return str(utils.default_cache_dir()) if utils is not None else ""


def _switched_off() -> tuple[str, ...]:
    found = []
    inductor = sys.modules.get("torch._inductor.config")
    for name, (module, switch) in _SWITCHES.items():
        config = sys.modules.get(module)
        if config is not None and not getattr(config, switch, False):
            found.append(name)
    if inductor is not None and inductor.force_disable_caches:
        return tuple(_SWITCHES)
    return tuple(found)


def _aot(recorder: Recorder, module: ModuleType, patches: ExitStack) -> None:
    _patch(recorder, patches, module, "_get_debug_lines_for_cache_key", _with_components)
    _patch(recorder, patches, module.AOTAutogradCache, "save", lambda original: _saving_aot(recorder, module, original))


def _fx(recorder: Recorder, module: ModuleType, patches: ExitStack) -> None:
    _patch(recorder, patches, module.FxGraphCache, "_save_graph", lambda original: _saving_fx(recorder, original))


def _patch(
    recorder: Recorder, patches: ExitStack, owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Any]
) -> None:
    with recorder.watching(f"what {name} does"):
        if hasattr(owner, name):  # the first one is new in 2.13
            wrapped = wrap(getattr(owner, name))
            made: AbstractContextManager[Any] = patched(
                owner, name, staticmethod(wrapped) if isinstance(owner, type) else wrapped
            )
            patches.enter_context(made)


def _with_components(original: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Have torch log the components of each key, not only for its own debug log."""

    def lines(pickler: Any, details: Any, key: str) -> list[str]:
        return original(pickler, details, key) or pickler.debug_lines(details)

    return lines


def _saving_aot(recorder: Recorder, module: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
    def save(key: str, entry: Any, remote: bool) -> Any:
        before = _count("aot_autograd", "autograd_cache_saved"), _count("aot_autograd", "autograd_cache_bypass")
        result = original(key, entry, remote)
        with recorder.watching("what the AOTAutograd cache stores"):
            is_stored = _count("aot_autograd", "autograd_cache_saved") > before[0]
            bypassed = _count("aot_autograd", "autograd_cache_bypass") > before[1]
            why = "" if is_stored else _why_not(module, entry, bypassed=bypassed)
            recorder.add(CacheStored("aot_autograd", key, is_stored, why, bypassed))
        return result

    return save


def _why_not(module: ModuleType, entry: Any, *, bypassed: bool) -> str:
    if bypassed:
        return "torch bypassed the cache when it was about to store the entry"
    find = getattr(module.AOTAutogradCache, "_find_unpicklable_field", None)
    field = find(entry) if find is not None else None
    return f"{field} of the entry cannot be pickled" if field else "the entry cannot be pickled or written"


def _saving_fx(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    def save(key: str, *rest: Any, **named: Any) -> Any:
        names = ("fxgraph_cache_pickle_error", "fxgraph_cache_write_error")
        before = [_count("inductor", name) for name in names]
        result = original(key, *rest, **named)
        with recorder.watching("what the FX graph cache stores"):
            failed = [name for name, number in zip(names, before, strict=True) if _count("inductor", name) > number]
            whys = {names[0]: "the compiled graph cannot be pickled", names[1]: "the entry cannot be written"}
            why = whys[failed[0]] if failed else ""
            recorder.add(CacheStored("fx_graph", key, not failed, why))
        return result

    return save


def _count(group: str, name: str) -> int:
    from torch._dynamo.utils import counters

    return int(counters[group][name])
