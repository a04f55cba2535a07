"""The table of docs/reference/versions.md that is made of the answers of `ctrace upgrade`."""

from typing import Any

import pytest
from upgrade_table import PAGE, table_of, with_table


def change(what: str, kind: str, name: str, **values: str | None) -> dict[str, Any]:
    reason = {"kind": kind, "name": name, "before": None, "after": None, "source": None, "note": "n", **values}
    return {"what": what, "reason": reason}


def test_a_row_is_a_reason_with_its_models():
    places = {"before": "torch/a.py:1", "after": "torch/a.py:2", "source": "torch/a.py:2"}
    option = {"before": "True", "after": "False", "source": "torch/_dynamo/config.py:4"}
    changes = [
        change("graph", "torch", "remove_no_ops", **places),
        change("kernel", "torch", "remove_no_ops", **places),
        change("guard", "config", "torch._dynamo.config.x", **option),
        change("kernel", "torch", "torch", before="2.13", after="2.15"),
    ]
    models = [
        {"name": "a.py", "error": None, "changes": changes},
        {"name": "x/b.py", "error": None, "changes": []},
        {"name": "d.py", "error": None, "changes": [*changes[2:3], *changes[2:3]]},
        {"name": "e.py", "error": None, "changes": changes[2:3]},
        {
            "name": "c.py",
            "error": {"environment": "after", "phase": "load", "message": "no | here (at /home/me/c.py:3)"},
            "changes": [],
        },
    ]
    option_name = "config: `torch._dynamo.config.x` (torch/_dynamo/config.py:4)"
    assert list(table_of([{"models": models[:2]}, {"models": models[2:]}]))[2:] == [
        "| torch: `remove_no_ops` | `torch/a.py:1` | `torch/a.py:2` | 1 graph, 1 kernel: `a.py` |",
        f"| {option_name} | `True` | `False` | 1 guard: `a.py`, `e.py`; 2 guard: `d.py` |",
        "| torch itself; the place was not found |  |  | 1 kernel: `a.py` |",
        "| no change |  |  | `b.py` |",
        "| not compared: after, no \\| here |  |  | `c.py` |",
    ]


def test_models_that_a_call_did_not_reach_are_left_out():
    ended = {"environment": "before", "phase": "interrupt", "message": "ctrace ended first"}
    unreached: list[dict[str, Any]] = [
        {"name": name, "error": ended, "changes": []} for name in ("a.py", "b.py", "c.py")
    ]
    answers: list[dict[str, Any]] = [
        {"models": unreached},
        {"models": [{"name": "x/b.py", "error": None, "changes": []}]},
    ]
    assert list(table_of(answers))[2:] == ["| no change |  |  | `b.py` |"]


def test_only_the_named_table_is_replaced():
    text = "a\n<!-- upgrade: x -->\nold\n<!-- end of upgrade -->\n<!-- upgrade: y -->\nold\n<!-- end of upgrade -->\n"
    assert with_table(text, "y", ["new"]) == text[: text.index("<!-- upgrade: y")] + (
        "<!-- upgrade: y -->\nnew\n<!-- end of upgrade -->\n"
    )
    with pytest.raises(ValueError, match="there is no"):
        with_table(text, "z", [])
    assert "<!-- upgrade: 2.14 to 2.15 -->" in PAGE.read_text(encoding="utf-8")
