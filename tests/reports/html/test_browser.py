"""The page in a real browser: it opens without errors, asks for nothing, and shows hostile text without running it."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.load import load_log
from tests.support import fusions, guarded, kernelsessions, recompiled, sessions, targeted, userkernels
from tests.support.places import DATA
from tests.support.poison import COMMANDS, MARKUP, UNSEEN, poisoned

PAGES = ("summary", "source", "recompiles", "code", "guards", "shapes", "fusion", "kernels", "memory", "time", "graph")
MADE = {
    **sessions.ALL,
    "kernels": kernelsessions.KERNELS,
    "emitted": targeted.EMITTED,
    "user-kernels": userkernels.SESSION,
    "fused": fusions.FUSED,
    "guarded": guarded.GUARDED,
    "recompiled": recompiled.SEVERAL,
    "empty": Session(),
}
LOGS = ("break_paths", "dynamic_sizes", "fused", "several_causes", "trained")
RUNS = "<img src=x onerror=alert(1)><svg onload=alert(1)></script><script>alert(1)</script><a href='javascript:alert(1)'>x</a>"


def hostile(text: str) -> str:
    return f"{text[:1]}{UNSEEN}{text[1:]}{MARKUP}{RUNS}{COMMANDS}"


def checked(report: Any, pages: tuple[str, ...] = PAGES, *, anew: bool = False) -> None:
    for name in pages:
        page = (report.go if anew else report.turn)(name)
        assert page.locator("main").inner_text().strip(), name
        assert "This page cannot be shown" not in page.locator("main").inner_text(), name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than the screen"
    assert (report.errors, report.foreign(), report.dialogs) == ([], [], [])


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_opens(opened: Any, name: str, width: int):
    checked(opened(load_log(DATA / f"{name}.log"), width), anew=(name, width) == ("fused", 1280))


@pytest.mark.parametrize("name", MADE)
def test_nothing_hostile_runs(opened: Any, name: str):
    report = opened(poisoned(MADE[name], hostile))
    checked(report)
    page = report.page
    assert page.locator("main img, main svg[onload], main script, a[href^=javascript]").count() == 0
    assert page.evaluate(
        "[...document.querySelectorAll('a')].every((each) => each.getAttribute('href').startsWith('#'))"
    )


def test_no_letter_changes_the_direction_of_text(opened: Any):
    report = opened(poisoned(load_log(DATA / "break_paths.log"), hostile))
    for name in ("summary", "source", "code"):
        text = report.go(name).locator("body #app").inner_text()
        assert not set(text) & set("\u202e\u2066\u200e\u2028\ufeff\x1b"), name


def test_a_link_of_a_hostile_address_shows_a_page(opened: Any):
    report = opened(load_log(DATA / "fused.log"))
    for address in (
        "nowhere",
        "code?sel=<script>alert(1)</script>",
        "code?sel=node~x~y&st=__proto__&g=constructor",
        "guards?c=%00",
        "%E0%A4%A",
    ):
        report.go(address)
    assert (report.errors, report.dialogs) == ([], [])


def test_search_from_the_keyboard(opened: Any):
    report = opened(load_log(DATA / "break_paths.log"))
    page = report.go("summary")
    page.keyboard.press("/")
    page.keyboard.type("def ")
    page.wait_for_selector('.found mark:text-is("def")')  # not the results of fewer letters
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector(".page.code")
    assert page.url.partition("#")[2].startswith("code?")
    report.ready()
    assert page.locator(".source .row.picked").count() == 1
    assert report.errors == []


def test_keys_are_listed(opened: Any):
    report = opened(load_log(DATA / "fused.log"))
    page = report.go("summary")
    page.keyboard.press("?")
    assert page.locator("dialog.help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog.help").is_visible()
    page.keyboard.press("4")
    page.wait_for_selector(".page.code")


def test_arrow_keys_move_the_selection_and_the_address_keeps_it(opened: Any):
    report = opened(load_log(DATA / "fused.log"))
    page = report.go("code")
    page.locator(".pane.graph .list").focus()
    for _ in range(3):
        before = page.url
        page.keyboard.press("ArrowDown")
        report.until(f"location.href !== {before!r}")  # the address follows a moment later
    assert "node" in page.url
    picked = page.locator(".pane.graph .row.picked").inner_text()
    again = report.go(page.url.partition("#")[2])
    assert again.locator(".pane.graph .row.picked").inner_text() == picked


def test_a_stage_shows_what_it_changed(opened: Any):
    report = opened(load_log(DATA / "fused.log"))
    page = report.go("code?st=inference")
    page.keyboard.press("d")
    page.wait_for_selector(".pane.graph .row.new, .pane.graph .row.gone, .pane.graph .row.changed")
    before = page.locator(".pane.graph output").inner_text()
    page.keyboard.press("[")
    report.until(f"document.querySelector('.pane.graph output').textContent !== '{before}'")
    assert report.errors == []


def test_long_lines_and_a_million_lines_render_few_rows(opened: Any):
    made = load_log(DATA / "fused.log")
    file = next(iter(made.listings))
    text = made.listings[file] + "x" * 10_000_000 + "\n" + "pass\n" * 1_000_000
    report = opened(replace(made, listings={**made.listings, file: text}))
    page = report.go("code")
    rows = page.locator(".pane.source .row")
    assert 10 < rows.count() < 150
    page.locator(".pane.source .list").focus()
    page.keyboard.press("End")
    report.until("location.hash.includes('sel')")
    lines = text.count("\n") + 1
    assert page.locator(".pane.source .row.picked .ln").inner_text() == str(lines)
    assert rows.count() < 150
    assert max(len(each) for each in rows.all_inner_texts()) < 3_000
    assert report.errors == []


def test_a_damaged_part_of_the_file_is_named(opened: Any):
    report = opened(load_log(DATA / "fused.log"))
    text = report.file.read_text(encoding="utf-8")
    begin = text.index(">", text.index('id="data-1"')) + 1
    report.file.write_text(text[:begin] + "AAAA" + text[begin + 4 :], encoding="utf-8")
    page = report.go("source")
    assert 'The part "breaks" of this file is damaged' in page.locator("main").inner_text()
    page = report.go("kernels")
    assert "This page cannot be shown" not in page.locator("main").inner_text()


def test_what_is_damaged_in_a_run_is_on_the_page_once(opened: Any, tmp_path: Path):
    log = (DATA / "fused.log").read_bytes()
    damaged = tmp_path / "damaged.log"
    middle = len(log) // 2
    damaged.write_bytes(log[:middle] + b"\0" * 500 + log[middle + 500 :])
    session = load_log(damaged)
    assert session.problems
    lines = opened(session).go("summary").locator(".card.alert li").all_inner_texts()
    for problem in session.problems:
        assert sum(problem.what[1:] in line and f"{problem.line:,}" in line for line in lines) == 1, lines
    assert len(lines) == len(set(lines))


def test_code_in_sentences_may_have_backticks(opened: Any):
    page = opened(Session()).go("summary")
    texts = ['remove `print(f"`{x}`")`, or leave it', "`f(x` and `g(y)`", "`a` and `b"]
    found = page.evaluate("(texts) => texts.map((each) => h('p', {}, prose(each)).innerHTML)", texts)
    assert found == [
        'remove <code>print(f"`{x}`")</code>, or leave it',
        "<code>f(x</code> and <code>g(y)</code>",
        "<code>a</code> and `b",
    ]
