"""The pages of two runs and of ranks, and `ctrace report` of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.features.compare.compare_runs import compare
from ctrace.inspector.features.compare.ranks_of_job import read_job
from ctrace.inspector.runs.load import load_log
from ctrace.reports.html.comparison_page import render_diff_html, render_ranks_html
from tests.reports.html.test_html_page import Read
from tests.support import sessions
from tests.support.inprocess import ctrace
from tests.support.obeyed import obeyed
from tests.support.places import DATA
from tests.support.poison import poisoned, poisons

DIFF = DATA / "diff"
RANKS = DATA / "ranks"


def head(read: Read) -> dict[str, Any]:
    return json.loads(next(text for _, attributes, text in read.texts if attributes.get("id") == "head"))


def test_a_diff_has_what_json_prints():
    paths = [str(DIFF / f"{name}.log.gz") for name in ("base", "one_op_more")]
    before, after = (load_log(Path(path)) for path in paths)
    read = Read(render_diff_html((paths[0], paths[1]), (before, after), compare(before, after)))
    assert read.documents()["diff"] == json.loads(ctrace("diff", *paths, "--json").out)
    assert head(read)["verdict"] == "different"
    assert "Different: graphs" in read.shown


def test_equal_runs():
    session = load_log(DIFF / "base.log.gz")
    read = Read(render_diff_html(("a", "b"), (session, session), compare(session, session)))
    assert head(read)["verdict"] == "equal"


@pytest.mark.parametrize("way", poisons())
def test_a_hostile_diff_is_no_markup(way: str):
    before, after = sessions.HEALTHY, sessions.PARTIAL
    found = poisoned(compare(before, after), poisons()[way])
    hostile = tuple(poisoned(each, poisons()[way]) for each in (before, after))
    text = render_diff_html(("</script><b>", "b"), hostile, found)
    assert obeyed(text) == []
    assert "b" not in [tag for tag, _ in Read(text).tags]


@pytest.mark.parametrize(
    ("name", "verdict"), [("equal", "agree"), ("shape", "diverge"), ("killed", "incomplete"), ("order", "diverge")]
)
def test_ranks_have_what_json_prints(name: str, verdict: str):
    read = Read(render_ranks_html(read_job(RANKS / name), name))
    assert read.documents()["ranks"] == json.loads(ctrace("ranks", str(RANKS / name), "--json").out)
    assert head(read)["verdict"] == verdict
    letters = read.documents()["letters"]
    assert len(letters) == len(read.documents()["ranks"]["compilations"])


def test_the_command_writes_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    found = ctrace("report", str(DIFF / "base.log.gz"), str(DIFF / "wider.log.gz"), "-o", "d.html")
    assert found.code == 0
    assert head(Read((tmp_path / "d.html").read_text()))["verdict"] == "different"
    assert ctrace("report", str(RANKS / "shape"), "--ranks", "-o", "r.html").code == 0
    assert head(Read((tmp_path / "r.html").read_text()))["verdict"] == "diverge"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((str(DIFF / "base.log.gz"), "b", "c"), "3 runs are too many for one page"),
        (("--ranks",), "--ranks needs a folder of logs"),
        (("nowhere", "--ranks"), "--ranks needs a folder of logs: nowhere"),
        ((str(DIFF / "base.log.gz"), "nowhere"), "nowhere"),
    ],
)
def test_bad_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], what: str):
    monkeypatch.chdir(tmp_path)
    found = ctrace("report", *words)
    assert found.code == 2
    assert what in found.err
    assert list(tmp_path.glob("*.html")) == []


def test_the_pages_open(opened_page: Any):
    before, after = (load_log(DIFF / f"{name}.log.gz") for name in ("base", "one_op_more"))
    text = render_diff_html(("base", "one_op_more"), (before, after), compare(before, after))
    for width in (390, 1280):
        report = opened_page(text, width)
        for name in ("changes", "sides"):
            page = report.go(name)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        page = report.go("changes")
        page.locator(".filter button").nth(1).click()
        report.until("location.hash.includes('kind=')")
        assert (report.errors, report.foreign()) == ([], [])
    for name in ("shape", "killed", "equal"):
        report = opened_page(render_ranks_html(read_job(RANKS / name), name), 1280)
        page = report.go("ranks")
        assert page.locator(".matrix tr").count() > 1
        assert (report.errors, report.foreign()) == ([], [])
