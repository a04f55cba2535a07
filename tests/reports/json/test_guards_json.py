"""`ctrace guards --json`."""

import json
from typing import Any

from ctrace.inspector.findings.guard_view import GuardFilter, guards_document
from ctrace.reports.json.printer import render
from tests.support import guarded
from tests.support.helpers import recorded


def _first(choice: GuardFilter | None = None) -> Any:
    session = guarded.GUARDED
    data = json.loads(render(guards_document(session, choice or GuardFilter())))
    assert (data["schema"], data["verdict"], data["problems"]) == (1, "compiled", [])
    return data["compilations"][0]


def test_a_compilation() -> None:
    first = _first()
    assert (first["compilation"], first["file"], first["line"]) == ("0/0", "model.py", 8)
    assert (first["number"], first["latency_us"], first["unread"], first["misplaced"]) == (12, 87.5, 0, False)
    assert first["left_out"] == [
        {"kind": "EMPTY_NN_MODULE_HOOKS_DICT", "why": "torch._dynamo.config.skip", "number": 6}
    ]


def test_guards_have_the_users_names_and_lines() -> None:
    (step,) = [each for each in _first()["guards"] if each["kind"] == "EQUALS_MATCH"]
    assert step == {
        "kind": "EQUALS_MATCH", "code": "L['self'].step == 3", "source": "L['self'].step", "name": "self.step",
        "file": "model.py", "line": 9, "hint": "",
    }  # fmt: skip


def test_tensors_in_full() -> None:
    tensor = _first()["tensors"][0]
    assert tensor["sizes"] == [4, None]
    assert tensor["strides"] == [None, 1]
    assert (tensor["class"], tensor["dtype"], tensor["device"], tensor["ndim"]) == ("Tensor", "float32", "cpu", 2)
    assert tensor["dispatch_keys"] == ["CPU", "BackendSelect", "ADInplaceOrView", "AutogradCPU"]
    assert [each["parameter"] for each in _first()["tensors"]] == [False, False, True, True, True]


def test_the_tree() -> None:
    tree = _first()["tree"]
    assert [node["source"] for node in tree["nodes"]] == ["L['x']", "L['images']", "L['self']"]
    assert tree["guards"] == [{"kind": "GLOBAL_STATE", "code": "___check_global_state()"}]


def test_a_choice_leaves_out_the_tree() -> None:
    chosen = _first(GuardFilter(line="model.py:12"))
    assert chosen["tree"] is None
    assert {each["line"] for each in chosen["guards"]} == {12}


def test_cost() -> None:
    cost = _first()["cost"]
    assert (cost["unit"], cost["whole"], cost["epilogue_warm"]) == ("us", {"cold": 80.0, "warm": 6.0}, 0.5)
    assert cost["parts"][0] == {"source": "L['x']", "depth": 0, "guards": 1, "cold": 9.0, "warm": 0.5}
    assert cost["kinds"][1] == {"kind": "LAMBDA_GUARD", "number": 1, "warm": 0.25}


def test_a_line_selects_the_same_compilations_as_on_the_screen() -> None:
    session = recorded("break_paths")
    chosen = guards_document(session, GuardFilter(line="25"))
    data = json.loads(render(chosen))
    assert [each["compilation"] for each in data["compilations"]] == [
        each.head.compilation.id for each in chosen.compilations
    ]
    assert len(data["compilations"]) == 2
    assert all(each["guards"] for each in data["compilations"])
    first = guards_document(session, GuardFilter(line="25"), whole=False)
    assert len(first.compilations) + len(first.others) == 2
