"""Switch torch's caches off for a capture, or record what they did: lookups, keys, stores, and Triton's hits.

`no_caches` switches torch's graph caches off, because a hit would hide AOTAutograd, passes and fusion;
`own_triton_cache` and `own_autotuning_cache` isolate those of kernels. The user's caches do not change.

With caches on, `cache_records` records what torch's own entries leave out: components of AOTAutograd keys, what is
stored, settings. Sources: `_get_debug_lines_for_cache_key`, `AOTAutogradCache`
(_functorch/_aot_autograd/autograd_cache.py) and `FxGraphCache` (_inductor/codecache.py), 2.11 to 2.13. Before 2.13,
torch's entries have the components already.

`TritonCacheRecords` records whether Triton's cache had a kernel before the run, and whether the autotuner knew its best
configuration. Torch's own entries say neither. Kernels compile in worker processes; the autotuner that holds them comes
back and is prepared here (`CachingAutotuner.precompile`, _inductor/runtime/triton_heuristics.py, 2.11 to 2.13). A
kernel's folder in Triton's cache has the name of its hash (`_base32`, triton/runtime/cache.py, 3.6 and 3.7); those that
were there when the run began are hits.
"""

import base64
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.core.hook import Hook, When
from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.compile_time import CacheStored, LookupOutcome, OwnCacheAsked, TorchCachesUsed

_SWITCHES = {
    "torch._inductor.config": ("fx_graph_cache", "fx_graph_remote_cache"),
    "torch._functorch.config": ("enable_autograd_cache", "enable_remote_autograd_cache"),
}
_TRITON_CACHE = "TRITON_CACHE_DIR"


@contextmanager
def no_caches(recorder: Recorder, when: When) -> Iterator[None]:
    """Compile every graph without caches."""
    with ExitStack() as patches:

        def install(config: ModuleType) -> None:
            with recorder.watching("compiling without caches"):
                # Each setting is in the module that `when` has just seen imported; the other may never be.
                for name in _SWITCHES[config.__name__]:
                    # As soon as the settings exist: Dynamo's backends read them at each compilation.
                    patches.enter_context(patched(config, name, False))

        for module in _SWITCHES:
            when(module, install)
        yield


@contextmanager
def own_triton_cache(recorder: Recorder, when: When) -> Iterator[None]:
    """Use an empty Triton cache, so that every kernel is compiled and measured; leave the user's cache alone.

    Triton and Inductor read the environment at each use (2.11 to 2.13, _inductor/runtime/runtime_utils.py). Inductor
    keeps kernels that this process has loaded in memory, and they look for their binary in the folder that was used
    then ("Cubin file saved by TritonBundler not found", 2.11, runtime/triton_heuristics.py). So drop such kernels at
    the start of a capture. At its end, drop the kernels that it has loaded, together with the folder.
    """
    with ExitStack() as replaced:

        def forget(codecache: ModuleType) -> None:
            with recorder.watching("reloading kernels"):
                # Inductor loads the module of a kernel again if its path is not in this table (codecache.py, 2.13).
                replaced.enter_context(patched(codecache.PyCodeCache, "modules_no_attr", {}))

        def install(_triton: ModuleType) -> None:
            folder = tempfile.TemporaryDirectory(prefix="ctrace-triton-", ignore_cleanup_errors=True)
            # Once triton is there: without it, nothing is compiled, and no folder is needed.
            replaced.enter_context(_environment(_TRITON_CACHE, replaced.enter_context(folder)))

        when("triton", install)
        when("torch._inductor.codecache", forget)
        yield


@contextmanager
def own_autotuning_cache(recorder: Recorder, when: When) -> Iterator[None]:
    """Use an empty cache of autotuning's times, so that every choice is timed; leave the user's cache alone.

    Torch keeps them in one file of its cache folder (`CacheBase`, 2.11 to 2.15, _inductor/codecache.py).
    """
    with ExitStack() as replaced:

        def install(codecache: ModuleType) -> None:
            with recorder.watching("timing without a cache"):
                folder = tempfile.TemporaryDirectory(prefix="ctrace-autotune-", ignore_cleanup_errors=True)
                file = Path(replaced.enter_context(folder)) / "times"
                # Torch's is a static method, which a plain function in its place would not be.
                where = staticmethod(lambda: file)
                replaced.enter_context(patched(codecache.CacheBase, "get_local_cache_path", where))

        when("torch._inductor.codecache", install)
        yield


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


_CACHE_SWITCHES = {
    "fx_graph": ("torch._inductor.config", "fx_graph_cache"),
    "aot_autograd": ("torch._functorch.config", "enable_autograd_cache"),
    "autotune": ("torch._inductor.config", "autotune_local_cache"),
    "precompile": ("torch._dynamo.config", "caching_precompile"),
}
"""Torch's setting of each cache (2.11 to 2.15)."""


def cache_records(kind: str) -> Hook:
    """Make the hook for a run with caches: `private` or `user`."""

    @contextmanager
    def hook(recorder: Recorder, when: When) -> Iterator[None]:
        # Once more at the end, with torch's settings; a run that crashes has no end.
        recorder.add(TorchCachesUsed(kind, os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")))
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
                    recorder.add(TorchCachesUsed(kind, _folder(), _switched_off()))

    return hook


def _folder() -> str:
    return os.environ.get("TORCHINDUCTOR_CACHE_DIR") or _default_folder()


def _default_folder() -> str:
    utils = sys.modules.get("torch._inductor.runtime.cache_dir_utils")
    if utils is not None:
        return str(utils.default_cache_dir())
    return ""


def _switched_off() -> tuple[str, ...]:
    found = []
    inductor = sys.modules.get("torch._inductor.config")
    for name, (module, switch) in _CACHE_SWITCHES.items():
        config = sys.modules.get(module)
        if config is not None and not getattr(config, switch, False):
            found.append(name)
    # It wins over each cache's own setting (_inductor/config.py).
    if inductor is not None and inductor.force_disable_caches:
        return tuple(_CACHE_SWITCHES)
    return tuple(found)


def _aot(recorder: Recorder, module: ModuleType, patches: ExitStack) -> None:
    # Torch returns no lines unless its debug log is on (autograd_cache.py, 2.13), and puts what it returns into its
    # entry.
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
            # What is patched in a class are static methods, and a plain function would get the object.
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
        # `save` returns nothing that tells; torch's counters do.
        before = _count("aot_autograd", "autograd_cache_saved"), _count("aot_autograd", "autograd_cache_bypass")
        result = original(key, entry, remote)
        with recorder.watching("what the AOTAutograd cache stores"):
            is_stored = _count("aot_autograd", "autograd_cache_saved") > before[0]
            bypassed = _count("aot_autograd", "autograd_cache_bypass") > before[1]
            why = ""
            if not is_stored:
                why = _why_not(module, entry, bypassed=bypassed)
            recorder.add(CacheStored("aot_autograd", key, is_stored, why, bypassed))
        return result

    return save


def _why_not(module: ModuleType, entry: Any, *, bypassed: bool) -> str:
    if bypassed:
        return "torch bypassed the cache when it was about to store the entry"
    find = getattr(module.AOTAutogradCache, "_find_unpicklable_field", None)
    field = None
    if find is not None:
        field = find(entry)
    if field:
        return f"{field} of the entry cannot be pickled"
    return "the entry cannot be pickled or written"


def _saving_fx(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    def save(key: str, *rest: Any, **named: Any) -> Any:
        names = ("fxgraph_cache_pickle_error", "fxgraph_cache_write_error")
        before = [_count("inductor", name) for name in names]
        result = original(key, *rest, **named)
        with recorder.watching("what the FX graph cache stores"):
            failed = [name for name, number in zip(names, before, strict=True) if _count("inductor", name) > number]
            whys = {names[0]: "the compiled graph cannot be pickled", names[1]: "the entry cannot be written"}
            why = ""
            if failed:
                why = whys[failed[0]]
            recorder.add(CacheStored("fx_graph", key, not failed, why))
        return result

    return save


def _count(group: str, name: str) -> int:
    from torch._dynamo.utils import counters

    return int(counters[group][name])


class TritonCacheRecords:
    """Knows the kernels that Triton's cache held before the first compilation."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # When the module is imported: before it, no kernel of this run can be there.
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

        # Called once for each kernel before its first launch, wherever it was compiled.
        patches.enter_context(patched(autotuner, "precompile", precompile))

    def _record(self, kernel: Any) -> None:
        name = str((kernel.inductor_meta or {}).get("kernel_name") or kernel.fn.__name__)
        # Torch asks that cache only for several configurations or coordinate descent (triton_heuristics.py, 2.13).
        state = str((getattr(kernel, "autotune_cache_info", None) or {}).get("autotune_cache_state", ""))
        if state in (LookupOutcome.HIT, LookupOutcome.MISS):
            self._write("autotune", name, LookupOutcome(state), None)
        for result in kernel.compile_results:
            hash_ = getattr(getattr(result, "kernel", None), "hash", None)
            if isinstance(hash_, str):
                is_known = _folder_name(hash_) in self._before
                self._write("triton", name, LookupOutcome.HIT if is_known else LookupOutcome.MISS, hash_)

    def _write(self, cache: str, kernel: str, outcome: LookupOutcome, key: str | None) -> None:
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
    if folder:
        return _names(sorted(Path(str(folder), "triton").glob("*")))
    return set()


def _names(folders: Iterable[Path]) -> set[str]:
    inside = [each for folder in folders if folder.is_dir() for each in folder.iterdir()]
    return {each.name for each in inside if each.is_dir()}
