"""Each page passes axe's rules, light and dark, and its charts can be read from the keyboard."""

from typing import Any

import pytest

from ctrace.inspector.features.compare.compare_runs import compare
from ctrace.inspector.features.compare.ranks_of_job import read_job
from ctrace.inspector.runs.load import load_log
from ctrace.reports.html.comparison_page import render_diff_html, render_ranks_html
from ctrace.reports.html.html_page import render_html
from tests.reports.html.test_browser import PAGES
from tests.support import followed, fusions, kernelsessions
from tests.support.places import DATA

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe (pip install ctrace[browser])")
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}}


COLORS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules that depend on colors: the dark pages are the light ones in other colors."""


def violations(page: Any, rules: dict[str, Any] = RULES) -> list[str]:
    """Run axe, and list what it finds: the rule, and the first element."""
    found = axe.Axe().run(page, options=rules).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in found]


def diff() -> str:
    before, after = (load_log(DATA / "diff" / f"{name}.log.gz") for name in ("base", "one_op_more"))
    return render_diff_html(("base", "one_op_more"), (before, after), compare(before, after))


REPORTS = {
    "breaks": (lambda: render_html(load_log(DATA / "several_causes.log")), PAGES),
    "sizes": (lambda: render_html(load_log(DATA / "dynamic_sizes.log")), ("summary", "recompiles", "guards", "shapes")),
    "fused": (lambda: render_html(load_log(DATA / "diff" / "broken.log.gz")), ("fusion", "memory", "time", "kernels")),
    "followed": (lambda: render_html(followed.FOLLOWED), ("memory",)),
    "kernels": (lambda: render_html(kernelsessions.KERNELS), ("kernels", "code")),
    "diff": (diff, ("changes", "sides")),
    "ranks": (lambda: render_ranks_html(read_job(DATA / "ranks" / "shape"), "shape"), ("ranks",)),
}


@pytest.mark.parametrize("name", REPORTS)
def test_no_page_breaks_a_rule(opened_page: Any, name: str):
    write, pages = REPORTS[name]
    report = opened_page(write(), 1280)
    found = {}
    for each in pages:
        page = report.turn(each)
        found[each] = violations(page)
        page.emulate_media(color_scheme="dark")
        found[f"{each}, dark"] = violations(page, COLORS)
        page.emulate_media(color_scheme="light")
    assert {each: some for each, some in found.items() if some} == {}


def test_the_dialogs_break_no_rule(opened_page: Any):
    report = opened_page(render_html(load_log(DATA / "fused.log")), 1280)
    for key in ("?", "/"):
        page = report.go("summary")
        page.keyboard.press(key)
        page.wait_for_selector("dialog[open]")
        assert violations(page) == []


def test_the_rounds_of_fusion_play(opened_page: Any):
    report = opened_page(render_html(fusions.FUSED), 1280)
    page = report.go("fusion?step=0")
    separate = page.locator(".kernelbox").count()
    assert "Before fusion" in page.locator(".caption").inner_text()
    page.get_by_role("button", name="Play").click()
    report.until("document.querySelector('.caption').textContent.includes('Round 1')")
    page = report.go("fusion")
    assert page.locator(".kernelbox").count() < separate
    page.locator("input[aria-label='Round of fusion']").focus()
    page.keyboard.press("Home")
    report.until("location.hash.includes('step=0')")
    assert page.locator(".kernelbox").count() == separate
    assert (report.errors, report.foreign()) == ([], [])


def test_the_flame_graph_from_the_keyboard(opened_page: Any):
    report = opened_page(render_html(load_log(DATA / "diff" / "one_op_more.log.gz")), 1280)
    page = report.go("time")
    page.locator("[data-chosen]").first.focus()
    page.keyboard.press("ArrowDown")
    report.until("location.hash.includes('at=0.')")
    page.keyboard.press("ArrowUp")
    report.until("!location.hash.includes('at=0.')")
    assert page.evaluate("document.activeElement.hasAttribute('data-chosen')")
    assert report.errors == []


def test_memory_is_read_with_a_slider(opened_page: Any):
    report = opened_page(render_html(followed.FOLLOWED), 1280)
    page = report.go("memory")
    assert "the peak" in page.locator(".caption").inner_text()
    page.locator("input[aria-label='Moment']").focus()
    page.keyboard.press("Home")
    assert "Moment 1 of" in page.locator(".caption").inner_text()
    assert report.errors == []
