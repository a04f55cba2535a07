"""The increase of torch's own counters during a capture."""

import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctrace.inspector.capture.core.counters import counters
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.log.reader import LogEntry, read


@pytest.fixture
def utils(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Pretend that torch is imported, with its counters and no stance."""
    config = SimpleNamespace(recompile_limit=8)
    fake = SimpleNamespace(
        counters={"frames": Counter(total=3, ok=2), "stats": Counter(), "other": Counter(a=1)}, config=config
    )
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", fake)
    monkeypatch.delitem(sys.modules, "torch._dynamo.eval_frame", raising=False)
    monkeypatch.delenv("TORCHDYNAMO_DISABLE", raising=False)
    return fake


def recorded(folder: Path, utils: SimpleNamespace, **more: dict[str, int]) -> Any:
    """Increase counters during a capture, and return the record."""
    with counters(Recorder(TraceLog(folder / "trace.log")), lambda _name, action: action(utils)):
        for name, counts in more.items():
            utils.counters.setdefault(name, Counter()).update(counts)
    (entry,) = read(folder / "trace.log")
    assert isinstance(entry, LogEntry)
    assert entry.kind == "artifact:ctrace_counters"
    return json.loads(entry.payload)


def test_only_what_came_during_the_capture(utils: SimpleNamespace, tmp_path: Path):
    data = recorded(tmp_path, utils, frames={"total": 2, "ok": 1}, graph_break={"print": 1}, other={"a": 1})
    assert data == {
        "frames": {"total": 2, "ok": 1},
        "graph_break": {"print": 1},
        "unimplemented": {},
        "stats": {},
        "caches": {},
        "recompile_limit": 8,
        "switched_off": None,
    }


def test_outcomes_of_caches_are_recorded_together(utils: SimpleNamespace, tmp_path: Path):
    counted = {
        "inductor": {"fxgraph_cache_miss": 2, "pattern_matcher_count": 5},
        "aot_autograd": {"autograd_cache_hit": 1},
    }
    data = recorded(tmp_path, utils, **counted)
    assert data["caches"] == {"fxgraph_cache_miss": 2, "autograd_cache_hit": 1}
    assert "inductor" not in data


def test_without_torch_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    with counters(Recorder(TraceLog(tmp_path / "trace.log")), lambda _name, _action: None):
        pass
    assert list(read(tmp_path / "trace.log")) == []


@pytest.mark.parametrize(("value", "expected"), [("1", "TORCHDYNAMO_DISABLE=1"), ("0", None), ("", None)])
def test_a_variable_switches_torch_compile_off(
    utils: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, expected: str | None
):
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", value)
    assert recorded(tmp_path, utils)["switched_off"] == expected


@pytest.mark.parametrize(
    ("stance", "expected"), [("force_eager", 'torch.compiler.set_stance("force_eager")'), ("default", None)]
)
def test_a_stance_switches_torch_compile_off(
    utils: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stance: str, expected: str | None
):
    eval_frame = SimpleNamespace(_stance=SimpleNamespace(stance=stance))
    monkeypatch.setitem(sys.modules, "torch._dynamo.eval_frame", eval_frame)
    assert recorded(tmp_path, utils)["switched_off"] == expected
