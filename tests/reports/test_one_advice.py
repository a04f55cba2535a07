"""Every view shows the same first line of advice for the same cause, with what its trial showed."""

import tarfile
from pathlib import Path

import pytest

from ctrace.inspector.diagnosis.advice_sites import sites_of
from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.diagnosis.breaks_document import breaks_document
from ctrace.inspector.diagnosis.recompiles_document import advice_on, recompiles_document
from ctrace.inspector.diagnosis.sentences import checked, line_of
from ctrace.inspector.facts.diagnosis import Finding, RootCause, Suggestion
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Environment, Graph, Session
from ctrace.inspector.features.fix.repairs.repair_result import Fixes
from ctrace.inspector.findings.recompiles.recompile_view import groups
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store
from ctrace.reports.html.html_page import render_html
from ctrace.reports.json.printer import plain as printed
from ctrace.reports.terminal.breaks_screen import breaks_screen
from ctrace.reports.terminal.fix_screen import fix_screen
from ctrace.reports.terminal.recompiles_screen import recompiles_screen
from ctrace.reports.wording.diagnosis_wording import asks_nothing, effects
from tests.support.explained import explain_markdown, explained, screen_of
from tests.support.golden import drawn
from tests.support.sampling import sampled

RUNS = Path(__file__).parents[1] / "data" / "runs"
WIDE = 2_000
"""So that no line is broken."""


@pytest.fixture(params=sampled(["advised", "skipped", "stepped", "varied"]))
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    with tarfile.open(RUNS / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return load(Store(tmp_path).load(request.param))


def first_advice(session: Session) -> tuple[Suggestion, RootCause]:
    found = diagnose(session)
    first = found.advice[0]
    return first, next(each for each in found.causes if each.id in first.causes)


def test_all_views_show_the_first_line_of_explain(session: Session, tmp_path: Path) -> None:
    first, cause = first_advice(session)
    line = line_of(first)
    whats = {each.what for each in cause.symptoms}
    assert first.text in drawn(screen_of(session, WIDE), WIDE)
    assert first.text in plain(explain_markdown(session))
    assert first.text.partition("`")[0] in plain(render_html(session))
    assert explained(session)["advice"][0]["text"] == first.text
    found = diagnose(session)
    fixes = Fixes(session, found.causes, advice=found.advice)
    if not cause.expected:  # fix repairs what needs a change
        shown = drawn(fix_screen(fixes, WIDE, target="net.py"), WIDE)
        assert first.text in shown
        assert checked(first) in shown
    assert printed(fixes, fixes.cwd)["advice"] == explained(session)["advice"]
    assert line in {each.fix for each in sites_of(session, tmp_path, warm_up=True)}
    if Finding.BREAK in whats:
        assert line in drawn(breaks_screen(breaks_document(session), WIDE, all_paths=False), WIDE)
    elif Finding.RECOMPILE in whats:
        assert line in drawn(recompiles_screen(recompiles_document(session), WIDE, all_of_it=False), WIDE)


def plain(document: object) -> str:
    return str(document).replace("\\", "").replace("&#x27;", "'").replace("&gt;", ">").replace("&lt;", "<")


def test_markdown_and_report_show_what_is_at_stake_as_explain_does(session: Session) -> None:
    found = diagnose(session)
    shown = [effects(each, found) for each in found.advice[:3] if not asks_nothing(each)]
    assert any(shown)
    for effect in filter(None, shown):
        assert effect in drawn(screen_of(session, WIDE), WIDE)
        assert effect in plain(explain_markdown(session))
        assert effect.replace("→", "u2192") in plain(render_html(session))  # in the page's JSON


def test_nothing_to_fix_stands_apart_from_what_to_do() -> None:
    session = Session(graphs=(Graph("0/0", "forward", "net.py", 1, 2),), environment=Environment(ctrace="1.0"))
    for report in (explain_markdown(session), drawn(screen_of(session, WIDE), WIDE)):
        assert "Nothing to fix." in report
        assert "What to do" not in report
    page = str(render_html(session))
    assert "<p>Nothing to fix.</p>" in page
    assert "<h2>What to do</h2>" not in page


@pytest.mark.parametrize(("expected", "advice"), [(True, ""), (False, "Set `self.cos` in __init__.")])
def test_an_expected_recompilation_asks_nothing(expected: bool, advice: str) -> None:
    cause = Cause(CauseKind.NONE, "self.cos", "None", "torch.Tensor", fix="Set `self.cos` in __init__.")
    session = Session(recompiles=(Recompile("0/1", "forward", "net.py", 1, expected, (cause,)),))
    (group,) = groups(session)
    assert advice_on(group, session, {}) == advice
    assert advice_on(group, session, {0: "Pad x."}) == "Pad x."


def test_each_cause_of_a_recompilation_shows_its_own_advice_or_none() -> None:
    size = Cause(CauseKind.SIZE, "x.size(1)", "8", "9", fix="Mark it dynamic.")
    value = Cause(CauseKind.ATTRIBUTE_VALUE, "self.step", "1", "2", fix="Keep it in a buffer.")
    session = Session(recompiles=(Recompile("0/1", "forward", "net.py", 1, False, (size, value)),))
    by_subject = {each.subject: each for each in groups(session)}
    of_step = {0: "net.py:1: self.step counts up from call to call."}
    assert advice_on(by_subject["self.step"], session, of_step) == of_step[0]
    assert advice_on(by_subject["x.size(1)"], session, of_step) == ""
    assert advice_on(by_subject["x.size(1)"], session, {}) == size.fix


def test_advice_that_names_a_wrappers_argument_is_about_that_one() -> None:
    size = Cause(CauseKind.SIZE, "kwargs['x'].size(1)", "8", "9")
    same = Cause(CauseKind.ALIASING, "kwargs['x'] is kwargs['y']", "True", "False")
    session = Session(recompiles=(Recompile("0/1", "wrapper", "net.py", 1, False, (size, same)),))
    by_kind = {each.kind: each for each in groups(session)}
    of_size = {0: "Pad x.size(1) to a few lengths."}
    assert advice_on(by_kind[CauseKind.SIZE], session, of_size) == of_size[0]
    assert advice_on(by_kind[CauseKind.ALIASING], session, of_size) == ""
