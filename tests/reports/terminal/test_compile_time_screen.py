"""`ctrace time --compile` on screen and as JSON."""

import json

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.compile_time import EarlierKey, KeyDifference
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.compile_time_view import compile_document
from ctrace.reports.json.printer import render
from ctrace.reports.terminal.compile_time_screen import compile_time_screen
from tests.support.compiling import AT, Log, compiled, components, second
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.poison import UNSEEN


def with_caches() -> Session:
    log = Log().ours("caches", {"kind": "private", "folder": "/w/.ctrace/x", "switched_off": ["precompile"]})
    compiled(log).cache("aotautograd_cache_hit", key="a0")
    log.mark("B", "compile_fx.<locals>.fw_compiler_base", 101)
    log.cache("fx_graph_cache_miss", key="f1", cache_status_detailed="full_miss", components=components(gm="g"))
    log.mark("E", "compile_fx.<locals>.fw_compiler_base", 102)
    compiled(log, graph=second(1), begin=200)
    log.cache("aotautograd_cache_bypass", second(1), cache_bypass_reason="Unsupported call_function target f")
    log.ours("cache_stored", {"cache": "fx_graph", "key": "f1", "stored": False, "why": "it cannot be pickled"}, AT)
    changed = [KeyDifference(f"inductor_config[option_{number}]", "True", None) for number in range(5)]
    session = log.span("compile_file", 41, 59, thread=9).session()
    earlier = EarlierKey("fx_graph", "f1", "20260101-120000-model", "f0", (KeyDifference("gm", "relu", "y"), *changed))
    return replace(session, compile_time=replace(session.compile_time, earlier=(earlier,)))


def hostile() -> Session:
    log = Log(ours=False).span(UNSEEN, 0, 5).mark("B", "dynamo", 0).span(f"pass.{UNSEEN}", 1, 9)
    log.mark("E", "dynamo", 10).cache("fx_graph_cache_bypass", cache_bypass_reason=UNSEEN)
    return log.session()


SESSIONS = {
    "caches": with_caches(),
    "explained": compiled(Log().ours("mode", {"build": False, "fast": False})).session(),
    "torch": compiled(Log(ours=False)).cache("fx_graph_cache_hit", key="f1").session(),
    "cut": Log().mark("B", "dynamo", 0).span("bytecode_tracing", 2, 50).session(),
    "nothing": Log().session(),
    "hostile": hostile(),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SESSIONS)
def test_screen(name: str, width: int) -> None:
    assert_golden(
        f"compile-{name}-{width}.txt", drawn(compile_time_screen(compile_document(SESSIONS[name]), width), width)
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_screen_of_all(width: int) -> None:
    shown = drawn(compile_time_screen(compile_document(SESSIONS["caches"]), width, all_of_it=True), width)
    assert_golden(f"compile-caches-all-{width}.txt", shown)


@pytest.mark.parametrize("name", SESSIONS)
def test_no_line_is_wider_than_the_screen(name: str) -> None:
    assert max(map(len, drawn(compile_time_screen(compile_document(SESSIONS[name]), 80), 80).splitlines())) <= 80


def test_json_adds_up() -> None:
    found = json.loads(render(compile_document(SESSIONS["caches"])))["compile"]
    assert sum(found["phases"].values()) == pytest.approx(found["seconds"])
    assert sum(each["seconds"] for each in found["graphs"]) == pytest.approx(found["seconds"])
    assert sum(each["own_seconds"] for each in found["steps"]) == pytest.approx(found["seconds"])
    assert found["parallel"] == [
        {"name": "compile_file", "phase": "build", "seconds": pytest.approx(0.018), "times": 1}
    ]


def test_json_of_caches() -> None:
    found = json.loads(render(compile_document(SESSIONS["caches"])))["compile"]
    assert found["cache_use"] == {"kind": "private", "folder": "/w/.ctrace/x", "switched_off": ["precompile"]}
    hit, missed, bypassed = found["caches"]
    assert (hit["cache"], hit["outcome"], hit["graph"]) == ("aot_autograd", "hit", "0/0")
    assert hit["differs"] is None
    assert (missed["outcome"], missed["stage"], missed["key"]) == ("miss", "forward", "f1")
    assert missed["against"] == "20260101-120000-model"
    assert missed["differs"][0] == {"component": "gm", "was": "relu", "now": "y"}
    assert missed["stored"] is False
    assert bypassed["why"] == "Unsupported call_function target f"
    assert bypassed["graph"] == "1/0"


def test_json_without_steps_is_not_measured() -> None:
    found = json.loads(render(compile_document(SESSIONS["nothing"])))["compile"]
    assert found["seconds"] is None
    assert found["phases"] == {}
