"""Dangers of a log, named, advised on and counted."""

from typing import Any

from ctrace.inspector.facts.findings import Danger
from ctrace.inspector.facts.session import Scenario
from ctrace.inspector.knowledge.advice import entries
from tests.support.helpers import MODEL, Log


def log(*dangers: dict[str, Any]) -> Log:
    made = Log().started()
    for danger in dangers:
        made.ctrace("danger", {"scenario": "base", "call": 0, "difference": "all of it", "proven": True, **danger})
    return made.scenario("base")


def only(**about: Any) -> Danger:
    (danger,) = log(about).session().dangers
    return danger


def test_an_environment_variable():
    danger = only(kind="environment", subject="SCALE", was="'1'", now="'2'", file=MODEL, line=3)
    assert (danger.file, danger.line, danger.proven, danger.calls) == (MODEL, 3, True, 1)
    assert danger.why.startswith("The environment variable `SCALE` is read")
    assert "compile time, '1', but now it is '2'" in danger.why
    assert "`SCALE`" in danger.fix


def test_names_are_the_users():
    assert only(kind="attribute", subject="model._modules['0'].scale").subject == "model[0].scale"
    hook = only(kind="hook", subject="model._modules['fc']._forward_pre_hooks[3]")
    assert hook.subject == "model.fc (forward pre)"
    everywhere = only(kind="hook", subject="torch.nn.modules.module._global_forward_hooks[1]")
    assert everywhere.subject == "all modules (forward)"


def test_one_danger_in_several_calls_is_one():
    one, two = {"kind": "environment", "subject": "A"}, {"kind": "environment", "subject": "B"}
    dangers = log(one, {**one, "call": 1}, two).session().dangers
    assert [(each.subject, each.call, each.calls) for each in dangers] == [("A", 0, 2), ("B", 0, 1)]


def test_what_nothing_explains_is_one_danger_however_it_differs():
    unexplained = {"kind": "unexplained", "subject": "", "proven": False}
    (danger,) = log(unexplained, {**unexplained, "difference": "other"}).session().dangers
    assert (danger.calls, danger.proven, danger.subject) == (2, False, "")
    assert danger.fix


def test_a_failed_comparison_leaves_only_what_was_proven():
    proven = {"kind": "environment", "subject": "A"}
    made = log(proven, {"kind": "unexplained", "subject": "", "proven": False}).ctrace("dangers_withdrawn", {})
    assert [each.subject for each in made.session().dangers] == ["A"]


def test_a_kind_of_a_newer_ctrace_is_not_explained():
    assert only(kind="moon_phase", subject="moon").why == only(kind="unexplained", subject="moon").why


def test_every_kind_has_advice():
    assert all(entry.title and entry.why and entry.fix for entry in entries("dangers").values())


def test_a_log_that_knows_no_comparison_says_so():
    session = Log().started().scenario("base").session()
    assert session.scenarios == (Scenario("base", 2),)
    assert session.compared is None
