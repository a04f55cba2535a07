"""Every Triton kernel that Inductor compiles: its configurations, resources, code and compile times by stage.

Triton tells a listener of each compile (triton/knobs.py, 3.6 and 3.7: `CompilationListener`); Inductor's
`CachingAutotuner` holds what it compiled (torch/_inductor/runtime/triton_heuristics.py, 2.11 to 2.13). The two are
joined by Triton's hash.
"""

import base64
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ctrace.inspector.capture.building.cubin import disassembled, resources
from ctrace.inspector.capture.core.part import Part
from ctrace.inspector.capture.core.recorder import Recorder

_TEXTS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
_BINARY = "cubin"
_PACKED_FROM = 4096
"""Characters: shorter code stays readable in the log, longer code is packed to about an eighth."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """What Triton said of one compile: seconds by stage, empty for a hit in its cache, and where the code is."""

    metadata: dict[str, Any]
    seconds: list[dict[str, Any]]
    code: dict[str, bytes]


class TritonBuilds:
    """Collects what was compiled, and records it when it belongs to a graph part."""

    def __init__(self, recorder: Recorder, *, on_device: bool = True) -> None:
        """Without a device nobody will say which of several configurations is launched: the code of all is kept."""
        self._recorder = recorder
        self._on_device = on_device
        self._heard: dict[str, _Heard] = {}
        self._results: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
        self._parts: WeakKeyDictionary[Any, list[Part]] = WeakKeyDictionary()
        self._recorded: set[tuple[str, ...]] = set()
        self._kept: set[str] = set()

    def listen(self, *, metadata: dict[str, Any], metadata_group: dict[str, str], times: Any, cache_hit: bool) -> None:
        """Take in what Triton compiled; read its code now, since nobody promises that its files stay."""
        hash_ = str(metadata["hash"])
        if cache_hit and hash_ in self._heard:  # from this run's own cache: it was measured before
            return
        stages = [] if cache_hit else [("source", times.ir_initialization), *times.lowering_stages]
        seconds = [{"stage": str(stage), "seconds": micro / 1e6} for stage, micro in stages]
        self._heard[hash_] = _Heard(dict(metadata), seconds, _code(metadata_group))

    def compiled(self, kernel: Any, result: Any) -> None:
        """Take in what an autotuner compiled for one configuration."""
        self._results.setdefault(kernel, []).append(result)

    def belongs(self, kernel: Any, part: Part) -> None:
        """Record what was compiled of a kernel that a graph part calls."""
        parts = self._parts.setdefault(kernel, [])
        if part not in parts:
            parts.append(part)
        results = self._results.get(kernel) or list(kernel.compile_results)
        self._record(kernel, part, results, only=len(results) == 1)
        if len(results) == 1 or not self._on_device:
            for result in results:
                self._keep(_hash(result))

    def launched(self, kernel: Any) -> None:
        """Record which configuration of a kernel is launched."""
        (launcher,) = kernel.launchers
        results = self._results.get(kernel) or list(kernel.compile_results)
        chosen = next((each for each in results if each.config is launcher.config), None)
        if chosen is None or len(results) == 1:
            return
        for part in self._parts.get(kernel, ()):
            self._record(kernel, part, results, only=False)
            part.record(self._recorder, "built_chosen", {"kernel": name_of(kernel), "hash": _hash(chosen)})
        self._keep(_hash(chosen))

    def _record(self, kernel: Any, part: Part, results: Iterable[Any], *, only: bool) -> None:
        for result in results:
            payload = self._describe(kernel, result)
            key = (*map(str, part.context.values()), part.stage, payload["kernel"], payload["hash"])
            if key not in self._recorded:
                self._recorded.add(key)
                part.record(self._recorder, "built", {**payload, "chosen": only})

    def _describe(self, kernel: Any, result: Any) -> dict[str, Any]:
        config, compiled = result.config, result.kernel
        heard = self._heard.get(_hash(result))
        metadata = heard.metadata if heard else {}
        told = {"registers": getattr(compiled, "n_regs", None), "spills": getattr(compiled, "n_spills", None)}
        if told["registers"] is None and heard is not None and _BINARY in heard.code:  # it was never loaded
            told.update(resources(heard.code[_BINARY]))
        told["shared"] = metadata.get("shared", getattr(compiled, "shared", None))
        return {
            "kernel": name_of(kernel),
            "hash": _hash(result),
            "warps": int(metadata.get("num_warps", config.num_warps)),
            "stages": int(metadata.get("num_stages", config.num_stages)),
            "blocks": {str(name): value for name, value in config.kwargs.items() if type(value) is int},
            "seconds": heard.seconds if heard else [],
            **told,
        }

    def _keep(self, hash_: str) -> None:
        """Record the code of a compiled kernel, once."""
        heard = self._heard.get(hash_)
        if heard is None or hash_ in self._kept:
            return
        self._kept.add(hash_)
        texts = {stage: text.decode("utf-8", "replace") for stage, text in heard.code.items() if stage != _BINARY}
        binary = heard.code.get(_BINARY)
        with self._recorder.watching("the machine code of a kernel"):
            if binary is not None and self._on_device:
                texts["sass"] = disassembled(binary)
        packed = {stage: _packed(text.encode()) for stage, text in texts.items() if len(text) >= _PACKED_FROM}
        plain = {stage: text for stage, text in texts.items() if stage not in packed}
        if binary is not None and not self._on_device:  # reading it takes longer than compiling, for each of them
            packed[_BINARY] = _packed(binary)
        self._recorder.record("built_code", {"hash": hash_, "texts": plain, "packed": packed})


def name_of(kernel: Any) -> str:
    """Name an autotuner's kernel as the wrapper does."""
    return str(kernel.inductor_meta.get("kernel_name") or kernel.fn.__name__)


def _hash(result: Any) -> str:
    return str(result.kernel.hash)


def _code(files: dict[str, str]) -> dict[str, bytes]:
    found = {}
    for name, file in files.items():
        stage = name.rpartition(".")[2]
        if stage in (*_TEXTS, _BINARY):
            found[stage] = Path(file).read_bytes()
    return found


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")
