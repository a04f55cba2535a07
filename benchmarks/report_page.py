"""Measure `ctrace report`: size and time beside tlparse's output, and how fast the page answers in a browser.

Both read the same logs, which TORCH_TRACE wrote while torch compiled: two samples, a stack of 12 layers with backward,
and a log of 200 MB, which is that of the stack repeated with other frame ids. tlparse and Chromium are optional; what
is missing is skipped and named.
usage: report_page.py [--pairs N] [--megabytes N] [--skip-size] [--page REPORT.html]
"""

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _measure import PLAIN, SAMPLES, run

MODELS = (("attention.py", ("--train",)), ("batch_sizes.py", ()), ("transformer_stack.py", ("--train",)))
FIRST_PAINT = 1.0
CLICK = 0.1
"""Goals, in seconds."""
_FRAME = re.compile(r'("frame_id": ?)(\d+)')
_FRAME_BEGINS = "new Promise((done) => requestAnimationFrame(done))"
_FRAME_ENDS = """new Promise((done) => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = done;
  channel.port2.postMessage(null);
}))"""
_PAINT = 1.0
CLICK = 0.1
"""Goals, in seconds."""
_FRAME = re.compile(r'("frame_id": ?)(\d+)')
_RENDERED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
_CLICK = f"""async ([selector, ready]) => {{
  const element = document.querySelector(selector);
  if (!element) return null;
  delete document.body.dataset.ready;
  const before = location.hash;
  const began = performance.now();
  element.click();
  if (location.hash === before) ready = "";
  while (ready && !document.querySelector(ready)) await {_FRAME_BEGINS};
  await {_FRAME_ENDS};
  return (performance.now() - began) / 1000;
}}"""


def main() -> int:
    """Measure all; return 1 if the page misses a goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--skip-size", action="store_true", help="measure only the page in the browser")
    parser.add_argument("--page", type=Path, help="measure this page in the browser, not that of the stack")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ctrace-report-") as scratch:
        folder = Path(scratch)
        stack = None if given.page and given.skip_size else _log(folder, *MODELS[-1])
        if not given.skip_size and stack is not None:
            logs = [*((name, _log(folder, name, words)) for name, words in MODELS[:-1]), ("12 layers, backward", stack)]
            logs.append((f"{given.megabytes} MB", _repeated(stack, folder / "large.log", given.megabytes << 20)))
            for name, log in logs:
                _compare(name, log, folder, given.pairs)
        page = given.page
        if page is None and stack is not None:
            page = folder / "stack.html"
            run([sys.executable, "-m", "ctrace", "report", str(stack), "-o", str(page), "--force"], {})
        return 0 if page is None or _in_browser(page) else 1


def _log(folder: Path, name: str, words: tuple[str, ...]) -> Path:
    """Compile a model with TORCH_TRACE, and return its log."""
    traces = folder / Path(name).stem
    if not traces.exists():
        run([sys.executable, "-c", PLAIN, str(SAMPLES / name), *words], {"TORCH_TRACE": str(traces)})
    (log,) = traces.iterdir()
    return log


def _repeated(log: Path, large: Path, size: int) -> Path:
    """Write a log again and again, each time with other frame ids, until it is large."""
    text = log.read_text(encoding="utf-8", errors="replace")
    frames = 1 + max(map(int, (found[2] for found in _FRAME.finditer(text))), default=0)
    with large.open("w", encoding="utf-8") as file:
        for number in range(10_000):
            if file.tell() >= size:
                break
            file.write(_FRAME.sub(lambda found: f"{found[1]}{int(found[2]) + number * frames}", text))  # noqa: B023
    return large


def _compare(name: str, log: Path, folder: Path, number: int) -> None:
    page, other = folder / "report.html", folder / "tlparse"
    tlparse = shutil.which("tlparse")
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(number if log.stat().st_size < 50 << 20 else 1):
        ours.append(run([sys.executable, "-m", "ctrace", "report", str(log), "-o", str(page), "--force"], {}).wall)
        if tlparse:
            shutil.rmtree(other, ignore_errors=True)
            theirs.append(run([tlparse, str(log), "-o", str(other), "--no-browser"], {}).wall)
    print(f"{name}: log {log.stat().st_size / 1e6:.1f} MB")
    print(f"  ctrace report: {statistics.median(ours):.1f} s, 1 file, {page.stat().st_size / 1e6:.2f} MB")
    if theirs:
        files = [each for each in other.rglob("*") if each.is_file()]
        size = sum(each.stat().st_size for each in files)
        print(f"  tlparse:       {statistics.median(theirs):.1f} s, {len(files):,} files, {size / 1e6:.2f} MB")
    else:
        print("  tlparse: not installed, not measured")


def _in_browser(page: Path) -> bool:
    """Measure the first paint and clicks; return whether both meet the goals."""
    path = os.environ.get("CTRACE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        path = None
    if path is None:
        print("browser: Playwright or Chromium is missing, not measured")
        return True
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        paints = [_first_paint(browser, page) for _ in range(5)]
        clicks = dict(_clicks(browser, page))
        browser.close()
    print(f"{page.name}, {page.stat().st_size / 1e6:.2f} MB in Chromium")
    print(f"  first paint of the verdict: {statistics.median(paints):.2f} s (goal: {FIRST_PAINT} s)")
    for name, values in clicks.items():
        first, *again = (value * 1e3 for value in values)
        print(f"  {name}: first {first:.0f} ms, then {statistics.median(again):.0f} ms (goal: {CLICK * 1e3:.0f} ms)")
    slow = [name for name, (_, *again) in clicks.items() if statistics.median(again) > CLICK]
    if slow:
        print(f"  slower than the goal: {', '.join(slow)}")
    return statistics.median(paints) <= FIRST_PAINT and not slow


def _first_paint(browser: Any, page: Path) -> float:
    opened = browser.new_page(viewport={"width": 1280, "height": 860})
    opened.goto(f"file://{page}")
    opened.wait_for_selector("body[data-ready]", timeout=60_000)
    found = float(opened.evaluate(_PAINT))
    opened.close()
    return found


def _clicks(browser: Any, page: Path) -> Iterator[tuple[str, list[float]]]:
    """Yield the seconds from a click to the frame that shows its result; the first time, data is unpacked."""
    opened = browser.new_page(viewport={"width": 1280, "height": 860})
    opened.goto(f"file://{page}#code")
    opened.wait_for_selector("body[data-ready]", timeout=60_000)
    names = opened.evaluate("[...document.querySelectorAll('nav a')].map((each) => each.dataset.page)")
    for name in names:
        values = []
        other = "summary" if name != "summary" else "shapes"
        for _ in range(4):
            opened.evaluate(_CLICK, [f"nav a[data-page={other}]", f"body[data-ready={other}]"])
            values.append(opened.evaluate(_CLICK, [f"nav a[data-page={name}]", f"body[data-ready={name}]"]))
        yield f"page {name}", values
    opened.goto("about:blank")
    opened.goto(f"file://{page}#code")
    opened.wait_for_selector("body[data-ready]", timeout=60_000)
    for pane in ("source", "graph", "kernel", "ir"):
        found = [
            opened.evaluate(_CLICK, [f".pane.{pane} .row:nth-child({number})", "body[data-ready=code]"])
            for number in (20, 22, 24, 26)
        ]
        if all(each is not None for each in found):
            yield f"a line of the pane {pane}", found
    opened.close()


if __name__ == "__main__":
    sys.exit(main())
