"""What `benchmarks/truth.py` says about a case: differences, judgements, changes, and what plain torch does."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import _truth_foreign
import pytest
import truth
from _truth_compare import Judgement, change_of, contradictions, differences, effect, has_findings, judged, of_apply
from _truth_oracle import patched

BENCHMARKS = Path(truth.__file__).parent
EAGER = {"ops": 5, "prints": [[[[2], 1.0, 1.0]]]}


def site(line, *, gb="GB0059", user=None):
    return {
        "file": "/lib/deep.py",
        "line": line,
        "gb": gb,
        "users": [["/home/model.py", user or line]],
        "times": 1,
        "why": "",
    }


def counts(graphs=1, sites=(), recompiles=0, limit=()):
    return {"graphs": graphs, "sites": list(sites), "recompiles": recompiles, "limit": list(limit)}


def torch_said(two=None, ten=None, *, outside=0, error=None, prints=None):
    two = two or counts()
    return {
        "after_2": two,
        "last": ten or two,
        "calls": 10,
        "error": error,
        "prints": prints or EAGER["prints"],
        "outside": {"2": {"ops": outside, "names": {"aten::add": outside}}},
    }


def answers(requests):
    """Return what plain torch did for each request."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "_truth_oracle.py")],
        input="".join(f"{json.dumps(each)}\n" for each in requests),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(each) for each in done.stdout.splitlines()]


def entry(line, gb="GB0059", place=None):
    return {"file": "model.py", "line": line, "gb": [gb], **({"place": place} if place else {})}


def report(graphs=1, breaks=(), recompiles=0, *, limit=False, left=0, advice=(), **other):
    verdict = "partial" if breaks or limit else "compiled" if graphs else "not_compiled"
    return {
        "verdict": verdict,
        "error": None,
        "graphs": [{}] * graphs,
        "breaks": list(breaks),
        "recompiles": [{"expected": False}] * recompiles,
        "limit": {"hit": limit},
        "coverage": {"ops": 5, "compiled": 5 - left},
        "dangers": [],
        "advice": list(advice),
        **other,
    }


def advised(text="do this", checked=True, before=(2, 1, 0, None), after=(1, 0, 0, None), apply=None):
    names = ("graphs", "breaks", "recompiles", "coverage")
    pairs = {name: list(both) for name, both in zip(names, zip(before, after, strict=True), strict=True)}
    return {"text": text, "checked": checked, "effect": pairs if checked else None, "apply": apply}


def kinds(*args):
    return [each["kind"] for each in differences(*args)]


def test_the_rounding_of_a_sum_that_cancels_out_is_no_other_result():
    def judge(total):
        said = torch_said(counts(2, [site(7)]), prints=[[[[4], 1e-7, 194.0]]])
        return effect(said, torch_said(counts(1), prints=[[[[4], total, 194.0]]]))

    assert judge(-5e-5) is Judgement.IMPROVED
    assert judge(0.5) is Judgement.WORSE


def test_equal_facts_have_no_difference():
    said = torch_said(counts(2, [site(7)], 1), outside=3)
    assert not kinds(said, EAGER, report(2, [entry(7)], 1, left=3))


@pytest.mark.parametrize(
    ("said", "reported", "kind"),
    [
        (torch_said(counts(2)), report(1), ["graphs"]),
        (torch_said(counts(0)), report(1), ["verdict", "graphs"]),
        (torch_said(counts(recompiles=2)), report(recompiles=1), ["recompiles"]),
        (torch_said(counts(limit=["f"])), report(), ["verdict", "limit"]),
        (torch_said(outside=3), report(), ["ops"]),
        (torch_said(), report(left=3), ["ops"]),
        (torch_said(counts(sites=[site(7)])), report(breaks=[entry(8)]), ["sites"]),
        (torch_said(counts(sites=[site(7, user=3), site(9, user=3)])), report(breaks=[entry(3)]), ["places"]),
        (torch_said(ten=counts(recompiles=7, limit=["f"])), report(), ["outlook"]),
        (torch_said(), report(dangers=[{"kind": "stale"}]), ["dangers"]),
    ],
)
def test_each_difference_has_its_kind(said, reported, kind):
    assert kinds(said, EAGER, reported) == kind


@pytest.mark.parametrize(
    ("screen", "first"),
    [
        ("COMPILED\nWhat to do\n 1. net.py:3: do this\n 2. that\n", "net.py:3: do this"),
        ("COMPILED\nWhat to do\n Set it.\n", "Set it."),
        ("COMPILED\n1 graph\n\nNothing to fix.\n\nExpected recompilations, nothing to change\n", "Nothing to fix."),
        ("FAILED\nIt raised.\n", ""),
    ],
)
def test_the_first_line_of_a_screen_is_read_with_and_without_its_heading(screen: str, first: str):
    assert truth.first_item(screen) == first


def test_what_dynamo_converts_is_no_op_of_the_model():
    """The code around graphs makes tensors of NumPy's arrays and of numbers, and arrays of the results."""
    said = torch_said(counts(2, [site(7)]), outside=218)
    said["outside"]["2"]["names"] = {"aten::lift_fresh": 193, "aten::detach": 24, "aten::add": 1}
    assert not kinds(said, EAGER, report(2, [entry(7)], left=1))
    said["outside"]["2"]["names"] = {"aten::add": 218}
    assert kinds(said, EAGER, report(2, [entry(7)], left=1)) == ["ops"]


def test_where_nothing_is_compiled_all_ops_are_outside_in_either_way_of_counting():
    reported = report(0, [entry(7)], coverage={"ops": 203, "compiled": 0}, verdict="not_compiled")
    eager = {**EAGER, "ops": 265, "dispatched": 203}
    assert not kinds(torch_said(counts(0, [site(7)]), outside=265), eager, reported)
    assert kinds(
        torch_said(counts(1, [site(7)]), outside=265), eager, {**reported, "graphs": [{}], "verdict": "partial"}
    )


@pytest.mark.parametrize(("name", "judgement"), [("aten::view", Judgement.NOTHING), ("aten::add", Judgement.NO_EFFECT)])
def test_nothing_to_compile_is_right_where_only_a_view_of_an_input_runs(name: str, judgement: Judgement):
    said = torch_said(counts(0), outside=1)
    said["outside"]["2"]["names"] = {name: 1}
    text = "Nothing to compile here: Dynamo finds no operation."
    reported = report(0, left=1, advice=[advised(text, checked=None)])
    assert judged(said, None, reported, text, [], has_change=False)[0] is judgement


def test_calls_until_one_that_raises_whatever_is_changed_are_compared():
    error = {"type": "RuntimeError", "message": "no grad_fn", "call": 3}
    before = torch_said(counts(2, recompiles=1), counts(4, recompiles=3), error=error)
    now = torch_said(counts(1), counts(2, recompiles=1), error=error)
    assert effect(before, now) is Judgement.IMPROVED
    assert effect(before, torch_said(counts(1), error={**error, "message": "other"})) is Judgement.NO_EFFECT
    assert effect(before, torch_said(counts(1))) is Judgement.IMPROVED


def test_places_are_compared_exactly_where_they_are_told():
    said = torch_said(counts(sites=[site(7, user=3)]))
    right, wrong = ({"file": "/lib/deep.py", "line": line, "function": "f"} for line in (7, 8))
    assert not kinds(said, EAGER, report(breaks=[entry(3, place=right)]))
    assert kinds(said, EAGER, report(breaks=[entry(3, place=wrong)])) == ["places"]


def test_an_outlook_is_compared_with_ten_calls():
    said = torch_said(ten=counts(recompiles=7, limit=["f"]))
    outlook = {"calls": 10, "graphs": 8, "recompiles": 7, "limit_hit": True}
    assert not kinds(said, EAGER, report(outlook=outlook))
    assert kinds(said, EAGER, report(outlook={**outlook, "recompiles": 6})) == ["outlook"]


def test_an_error_is_the_only_difference_of_a_run_that_raised():
    raised = {"type": "Unsupported", "message": "no", "call": 0}
    assert kinds(torch_said(counts(0), error=raised), EAGER, report()) == ["error"]
    assert not kinds(torch_said(counts(3), error=raised), EAGER, report(error={"message": "no"}))


def test_a_danger_is_true_where_outputs_differ():
    said = torch_said(prints=[[[[2], 1.5, 1.5]]])
    assert not kinds(said, EAGER, report(dangers=[{"kind": "stale"}]))


@pytest.mark.parametrize(
    ("before", "now", "judgement"),
    [
        (counts(3, [site(1)]), counts(1), Judgement.IMPROVED),
        (counts(3, [site(1)]), counts(3, [site(1)]), Judgement.NO_EFFECT),
        (counts(3, [site(1)]), counts(4, [site(1), site(2)]), Judgement.WORSE),
        (counts(2, recompiles=4, limit=["f"]), counts(2, recompiles=1), Judgement.IMPROVED),
        (counts(2, [site(1)]), counts(2, recompiles=7, limit=["f"]), Judgement.WORSE),
        (counts(0, [site(1)]), counts(1, [site(1), site(2)]), Judgement.IMPROVED),
        (counts(1, recompiles=1), counts(0), Judgement.WORSE),
        (counts(2), counts(1), Judgement.IMPROVED),
    ],
)
def test_a_change_is_judged_by_ten_calls(before, now, judgement):
    assert effect(torch_said(before), torch_said(now)) is judgement


@pytest.mark.parametrize(("outside", "judgement"), [(45, Judgement.IMPROVED), (163, Judgement.NO_EFFECT)])
def test_fewer_breaks_do_not_pay_for_most_of_the_model(outside, judgement):
    before = torch_said(counts(9, [site(1)]), outside=10)
    assert effect(before, torch_said(counts(2), outside=outside)) is judgement


def test_a_change_that_raises_or_changes_results_is_worse():
    before = torch_said(counts(2, [site(1)]))
    assert effect(before, {"error": {"type": "E", "message": "m"}}) is Judgement.WORSE
    assert effect(before, torch_said(counts(1), prints=[[[[2], 9.0, 9.0]]])) is Judgement.WORSE
    nan = [[[[2], float("nan"), 1.0]]]
    as_eager = {**before, "eager_prints": [[[[2], 9.0, 9.0]]]}
    assert effect(as_eager, torch_said(counts(1), prints=[[[[2], 9.0, 9.0]]])) is Judgement.IMPROVED
    assert effect({**before, "prints": nan}, torch_said(counts(1), prints=nan)) is Judgement.IMPROVED


def test_results_of_memory_that_nobody_wrote_say_nothing():
    before = torch_said(counts(2, [site(1)]))
    other = torch_said(counts(1), prints=[[[[2], 9.0, 9.0]]])
    assert effect({**before, "reads_unwritten": True}, other) is Judgement.IMPROVED


@pytest.mark.parametrize(("value", "judgement"), [(1.5, Judgement.IMPROVED), (9.0, Judgement.WORSE)])
def test_a_number_may_become_a_tensor_of_its_value(value, judgement):
    before = torch_said(counts(2, [site(1)]), prints=[[["float", 1.5]]])
    now = torch_said(counts(1), prints=[[[[], value, abs(value)]]])
    assert effect(before, now) is judgement


def test_nothing_to_fix_is_right_only_where_ten_calls_find_nothing():
    def first(said, reported):
        return judged(said, None, reported, "Nothing to fix.", [], has_change=False)[0]

    assert first(torch_said(), report()) is Judgement.NOTHING
    assert first(torch_said(ten=counts(9, recompiles=8, limit=["f"])), report()) is Judgement.NO_EFFECT
    assert first(torch_said(counts(2, [site(1)])), report(2, [entry(1)])) is Judgement.CONTRADICTS


def test_advice_that_contradicts_its_own_report_is_found():
    assert contradictions(report(3, [entry(1)], advice=[advised()]), "do this", [])
    assert not contradictions(report(2, [entry(1)], advice=[advised()]), "do this", [])
    assert contradictions(report(), "compile with dynamic=True", ["--dynamic"])


def test_an_unknown_advice_and_one_without_a_change_are_told_apart():
    said, reported = torch_said(counts(2, [site(1)])), report(2, [entry(1)])
    assert judged(said, None, reported, "Not known.", [], has_change=False)[0] is Judgement.UNKNOWN
    assert judged(said, None, reported, "Rewrite it.", [], has_change=False)[0] is Judgement.NOT_CARRIED_OUT


def test_a_change_that_does_not_apply_has_no_effect():
    said, reported = torch_said(counts(2, [site(1)])), report(2, [entry(1)])
    now = {**torch_said(), "change": ["model.py: the patch does not fit line 3"]}
    assert judged(said, now, reported, "Apply it.", [], has_change=True)[0] is Judgement.NO_EFFECT


def test_each_kind_of_apply_is_carried_out():
    assert of_apply({"kind": "argument", "text": "dynamic=True", "file": None}) == {"arguments": {"dynamic": True}}
    setting = "torch._dynamo.config.allow_rnn = True"
    assert of_apply({"kind": "setting", "text": setting, "file": None}) == {"settings": [setting]}
    assert of_apply({"kind": "place", "text": "model.net.compile()", "file": None}) == {"place": "model.net.compile()"}
    assert of_apply({"kind": "patch", "text": "@@", "file": "m.py"}) == {"patches": [{"file": "m.py", "text": "@@"}]}
    with pytest.raises(ValueError, match="unknown kind"):
        of_apply({"kind": "wish", "text": "", "file": None})


def change(*args):
    found = change_of(*args)
    assert found is not None
    return found


def test_a_report_without_apply_is_read_by_its_trials_and_settings():
    edit = {"file": "m.py", "line": 8, "text": "pass", "was": "print(x)"}
    nothing: dict[str, Any] = {
        "grad": None,
        "calls": [],
        "evaluate": False,
        "dynamic": None,
        "marked": [],
        "ignored": [],
    }
    trial = {**nothing, "settings": [["allow_rnn", True]], "edits": [edit]}
    tried = {"trial": trial, "counts": {"graphs": 1, "breaks": 0, "recompiles": 0, "coverage": None}}
    tried_one = change(report(advice=[advised()]), "do this", [tried])
    assert tried_one["lines"] == [edit]
    assert tried_one["settings"] == ["torch._dynamo.config.allow_rnn = True"]
    unchecked = report(advice=[advised(checked=False)])
    assert change(unchecked, "set torch._dynamo.config.allow_rnn = True.", [])["settings"]
    assert change(unchecked, "Compile with dynamic=True", [])["arguments"] == {"dynamic": True}
    assert change_of(unchecked, "Move it elsewhere.", []) is None


def test_findings_are_all_but_a_model_that_stays_compiled():
    assert not has_findings(torch_said())
    assert has_findings(torch_said(counts(0)))
    assert has_findings(torch_said(ten=counts(recompiles=1)))


def test_a_patch_applies_whole_or_not_at_all():
    diff = "--- a\n+++ b\n@@ -2,2 +2,2 @@\n two\n-three\n+3\n"
    assert patched("one\ntwo\nthree\nfour", diff) == "one\ntwo\n3\nfour"
    with pytest.raises(ValueError, match="does not fit line 3"):
        patched("one\ntwo\nother\nfour", diff)
    with pytest.raises(ValueError, match="no hunk"):
        patched("one", "set it to 3")


def test_a_stub_has_every_name_and_leaves_what_is_installed(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    _truth_foreign.stub("not_installed_anywhere", "json")
    models: Any = importlib.import_module("not_installed_anywhere.models")

    class Mine(models.ResNet):  # type: ignore[misc]
        pass

    assert Mine(1, depth=2).layer(3) is not None
    assert models.Mode.NEAREST is not None
    assert json.__file__
    for name in [each for each in sys.modules if each.startswith("not_installed")]:
        del sys.modules[name]


def test_imports_are_found_without_parsing(tmp_path):
    file = tmp_path / "generated.py"
    file.write_text("import os, no_such.sub as s, also_none\nfrom none_either.x import y\nfrom . import here\n")
    assert _truth_foreign._imported(file) == {"no_such", "also_none", "none_either"}


def test_each_model_says_its_packages_and_they_are_listed():
    listed = {line.partition("==")[0] for line in (BENCHMARKS / "truth_packages.txt").read_text().split()}
    models = list((BENCHMARKS / "truth_models").glob("*.py"))
    named = [truth._constants(each.read_text(encoding="utf-8"))["PACKAGES"] for each in models]
    assert len(models) >= 60
    assert len({each[0] for each in named}) >= 25
    assert not {package for each in named for package in each} - listed


@pytest.mark.integration
def test_memory_that_a_case_does_not_write_is_filled(tmp_path):
    for name, value in {"reads": "torch.empty(100000)", "writes": "torch.zeros(100000)"}.items():
        (tmp_path / f"{name}.py").write_text(
            f"import torch\ndef model(x):\n    return x + {value}\ndef inputs():\n    return (torch.ones(100000),)\n"
        )
    asked = {"folder": str(tmp_path), "what": "eager", "calls": 1, "seconds": 120}
    cases = [
        {**asked, "file": str(tmp_path / f"{name}.py"), "fill": fill} for name in ("reads", "writes") for fill in (1, 2)
    ]
    *read, first, second = (each["prints"] for each in answers(cases))
    assert read[0] != read[1]
    assert first == second


@pytest.mark.integration
def test_plain_torch_is_asked_in_forks(tmp_path):
    case = tmp_path / "case.py"
    case.write_text(
        "import torch\n"
        "def model(x):\n"
        "    x = x + 1\n"
        "    print(x.shape)\n"
        "    return x * 2\n"
        "def inputs():\n"
        "    return (torch.ones(3),)\n"
    )
    request = {"folder": str(tmp_path), "file": str(case), "seconds": 120, "counted_at": [2, 10]}
    hangs = tmp_path / "hangs.py"
    hangs.write_text("import time\ntime.sleep(100)\n")
    line = {"file": str(case), "line": 4, "text": "    pass"}
    asked = [
        {**request, "what": "eager", "calls": 1},
        {**request, "what": "compiled", "calls": 10},
        {**request, "what": "compiled", "calls": 10, "change": {"lines": [line]}},
        {**request, "what": "eager", "calls": 1, "file": str(hangs), "seconds": 1},
    ]
    eager, broken, changed, late = answers(asked)
    assert eager["ops"] == 2
    assert [(each["line"], each["gb"]) for each in broken["after_2"]["sites"]] == [(4, "GB0059")]
    assert (broken["last"]["graphs"], broken["last"]["recompiles"]) == (2, 0)
    assert broken["outside"]["2"]["ops"] == 0
    assert (changed["last"]["graphs"], changed["last"]["sites"]) == (1, [])
    assert "ran out of time" in late["ended"]
