"""Kernels of Triton's cache before the run, with autotuners as Inductor has them."""

import json
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ctrace.inspector.capture.core import record_caches
from ctrace.inspector.capture.core.record_caches import TritonCacheRecords
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.log.reader import LogEntry, read

KNOWN, NEW = "ab" * 32, "cd" * 32
KNOWN_FOLDER = "VOV2XK5LVOV2XK5LVOV2XK5LVOV2XK5LVOV2XK5LVOV2XK5LVOVQ"
"""What Triton calls the folder of KNOWN (`_base32`, triton/runtime/cache.py)."""


def kernel(name: str, *hashes: str | None, state: str = "") -> Any:
    results = [SimpleNamespace(kernel=SimpleNamespace(hash=hash_)) for hash_ in hashes]
    info = {"autotune_cache_state": state} if state else None
    meta = {"kernel_name": name}
    return SimpleNamespace(inductor_meta=meta, fn=None, compile_results=results, autotune_cache_info=info)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Prepare kernels in a run; return a function that lists what was recorded of them."""
    (tmp_path / "triton" / KNOWN_FOLDER).mkdir(parents=True)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setattr(record_caches, "current_stage", lambda: "forward")

    def prepared(*kernels: Any) -> list[dict[str, Any]]:
        heuristics: Any = ModuleType("heuristics")
        heuristics.CachingAutotuner = type("CachingAutotuner", (), {"precompile": lambda _self, **_named: "done"})
        recorder = Recorder(TraceLog(tmp_path / "trace.log"))
        with ExitStack() as patches:
            TritonCacheRecords(recorder).install(heuristics, patches)
            for each in kernels:
                assert heuristics.CachingAutotuner.precompile(each, warm_cache_only=False) == "done"
        return [json.loads(each.payload) for each in read(tmp_path / "trace.log") if isinstance(each, LogEntry)]

    return prepared


def test_kernels_that_were_there_are_hits(records: Any) -> None:
    found = records(kernel("triton_poi_0", KNOWN, NEW))
    assert [(each["cache"], each["kernel"], each["outcome"], each["key"]) for each in found] == [
        ("triton", "triton_poi_0", "hit", KNOWN), ("triton", "triton_poi_0", "miss", NEW),
    ]  # fmt: skip


def test_a_kernel_is_recorded_once(records: Any) -> None:
    assert len(records(kernel("a", KNOWN), kernel("a", KNOWN))) == 1


@pytest.mark.parametrize(("state", "outcomes"), [("hit", ["hit"]), ("miss", ["miss"]), ("only 1 config", []), ("", [])])
def test_the_autotuner_asks_only_with_a_choice(records: Any, state: str, outcomes: list[str]) -> None:
    found = records(kernel("triton_red_1", state=state))
    assert [each["outcome"] for each in found if each["cache"] == "autotune"] == outcomes


def test_a_kernel_of_another_form_is_a_problem_and_still_prepared(records: Any) -> None:
    (found,) = records(SimpleNamespace(inductor_meta=3))
    assert "what Triton's cache holds could not be recorded" in found["what"]
