"""Torch's metrics of each compilation, by torch's own names."""

import json
from pathlib import Path

import pytest

from ctrace.inspector.findings.compile_time_fold import METRICS, all_metrics
from ctrace.inspector.runs import load as loading
from ctrace.inspector.runs.load import load_log
from tests.support.helpers import Log

TEXTS = (
    "co_name", "co_filename", "fail_type", "fail_reason", "pytorch_version", "triton_version", "python_version",
    "dynamo_config",
)  # fmt: skip


def session_of(path: Path, values: dict[str, object]):
    path.write_text(Log().record("compilation_metrics", values, at="0/0").text, encoding="utf-8")
    return load_log(path)


def test_all_99_have_a_name():
    assert len(METRICS) == len(set(METRICS)) == 99


@pytest.mark.integration
def test_the_names_are_torchs():
    from dataclasses import fields

    from torch._dynamo.utils import CompilationMetrics

    assert {each.name for each in fields(CompilationMetrics)} <= set(METRICS)


@pytest.mark.parametrize("least", [1, 1 << 40])
def test_every_value_is_there(tmp_path: Path, least: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loading, "_LARGE", least)
    values: dict[str, object] = dict.fromkeys(METRICS, 7) | dict.fromkeys(TEXTS, "7")
    values["config_suppress_errors"] = True
    (found,) = all_metrics(session_of(tmp_path / "a.log", values)).compilations
    assert (found.graph, found.is_backward, found.values, found.unknown) == ("0/0", False, values, ())


def test_those_without_a_value_are_left_out(tmp_path: Path):
    (found,) = all_metrics(session_of(tmp_path / "a.log", {"guard_count": None, "cache_size": 0})).compilations
    assert found.values == {"cache_size": 0}


def test_new_ones_are_kept_by_name(tmp_path: Path):
    (found,) = all_metrics(session_of(tmp_path / "a.log", {"of_tomorrow": 1.5})).compilations
    assert found.values == {"of_tomorrow": 1.5}
    assert found.unknown == ("of_tomorrow",)


def test_a_long_text_is_kept_once(tmp_path: Path):
    log, config = Log(), json.dumps(dict.fromkeys(map(str, range(200))))
    for number in range(3):
        log.record("compilation_metrics", {"dynamo_config": config}, at=f"0/{number}")
    (tmp_path / "a.log").write_text(log.text, encoding="utf-8")
    found = all_metrics(load_log(tmp_path / "a.log"))
    assert found.texts == (config,)
    assert [each.texts for each in found.compilations] == [{"dynamo_config": 0}] * 3


def test_values_that_json_cannot_write_become_text(tmp_path: Path):
    deep: object = 1
    for _ in range(50):
        deep = [deep]
    (found,) = all_metrics(
        session_of(tmp_path / "a.log", {"start_time": float("nan"), "stack_trace": deep})
    ).compilations
    assert found.values["start_time"] == "nan"
    json.dumps(found.values, allow_nan=False)


def test_forward_and_backward(tmp_path: Path):
    log = Log().record("compilation_metrics", {"compile_id": "0/0"}, at="0/0")
    log.record("bwd_compilation_metrics", {"is_forward": False}, at="0/0")
    (tmp_path / "a.log").write_text(log.text, encoding="utf-8")
    found = all_metrics(load_log(tmp_path / "a.log")).compilations
    assert [(each.graph, each.is_backward) for each in found] == [("0/0", False), ("0/0", True)]
    assert found[1].values == {"is_forward": False}
