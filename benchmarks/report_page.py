"""Measure `ctrace report`: size and time beside tlparse's output, and how fast the page answers in a browser.

Both read the same logs, which TORCH_TRACE wrote while torch compiled: two samples, a stack of 12 layers with backward,
and a log of 200 MB, which is that of the stack repeated with other frame ids. memray profiles the compile of the stack.
tlparse, memray and Chromium are optional; what is missing is skipped and named.
usage: report_page.py [--pairs N] [--megabytes N] [--skip-size] [--page REPORT.html]
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _logs import write_repeated
from _measure import PLAIN, SAMPLES, Cost, run

MODELS = (("attention.py", ("--train",)), ("batch_sizes.py", ()), ("transformer_stack.py", ("--train",)))
FIRST_PAINT = 1.0
OPEN = 2.0
CLICK = 0.1
"""Goals, in seconds."""
_FRAME_BEGINS = "new Promise((done) => requestAnimationFrame(done))"
_FRAME_ENDS = """new Promise((done) => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = done;
  channel.port2.postMessage(null);
}))"""
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
            for name, log in logs:
                _compare(name, log, folder, given.pairs)
            _memray(folder)
            large = folder / "large.log"
            write_repeated(stack.read_bytes(), large, given.megabytes * 10**6)
            is_good = _in_browser(_compare(f"{given.megabytes} MB", large, folder, 1), opens=True)
        else:
            is_good = True
        page = given.page
        if page is None and stack is not None:
            page = folder / "stack.html"
            run([sys.executable, "-m", "ctrace", "report", str(stack), "-o", str(page), "--force"], {})
        return 0 if (page is None or _in_browser(page)) and is_good else 1


def _log(folder: Path, name: str, words: tuple[str, ...]) -> Path:
    """Compile a model with TORCH_TRACE, and return its log."""
    traces = folder / Path(name).stem
    if not traces.exists():
        run([sys.executable, "-c", PLAIN, str(SAMPLES / name), *words], {"TORCH_TRACE": str(traces)})
    (log,) = traces.iterdir()
    return log


def _compare(name: str, log: Path, folder: Path, number: int) -> Path:
    """Write the page of a log, with tlparse's pages in turn; return the page."""
    page, other = folder / "report.html", folder / "tlparse"
    tlparse = shutil.which("tlparse")
    ours: list[Cost] = []
    theirs: list[Cost] = []
    for _ in range(number if log.stat().st_size < 50 << 20 else 1):
        ours.append(run([sys.executable, "-m", "ctrace", "report", str(log), "-o", str(page), "--force"], {}))
        if tlparse:
            shutil.rmtree(other, ignore_errors=True)
            theirs.append(run([tlparse, str(log), "-o", str(other), "--no-browser"], {}))
    print(f"{name}: log {log.stat().st_size / 1e6:.1f} MB")
    print(f"  ctrace report: {_cost(ours)}, 1 file, {page.stat().st_size / 1e6:.2f} MB")
    if theirs:
        files = [each for each in other.rglob("*") if each.is_file()]
        size = sum(each.stat().st_size for each in files)
        print(f"  tlparse:       {_cost(theirs)}, {len(files):,} files, {size / 1e6:.2f} MB")
        shutil.rmtree(other)
    else:
        print("  tlparse: not installed, not measured")
    return page


def _memray(folder: Path) -> None:
    """Profile the compile of the stack with memray, and write its flame graph: what memray shows of the same work."""
    if find_spec("memray") is None:
        print("  memray: not installed, not measured")
        return
    memray = [sys.executable, "-m", "memray"]
    data, page = folder / "memray.bin", folder / "memray.html"
    name, words = MODELS[-1]
    run([*memray, "run", "-q", "-o", str(data), "-c", PLAIN, str(SAMPLES / name), *words], {})
    cost = run([*memray, "flamegraph", "-o", str(page), str(data)], {})
    size, raw = (each.stat().st_size / 1e6 for each in (page, data))
    print(f"  memray flamegraph of compiling it: {_cost([cost])}, 1 file, {size:.2f} MB, from {raw:.1f} MB of data")


def _cost(costs: list[Cost]) -> str:
    wall, cpu = (statistics.median(values) for values in zip(*((each.wall, each.cpu) for each in costs), strict=True))
    return f"{wall:.1f} s, {cpu:.1f} s CPU, {max(each.memory for each in costs) / 1024:.0f} MiB"


def _in_browser(page: Path, *, opens: bool = False) -> bool:
    """Measure the first paint and clicks, or only how long the page takes to open; return whether the goals are met."""
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
        paints, ready = map(list, zip(*(_opened(browser, page) for _ in range(5)), strict=True))
        clicks = {} if opens else dict(_clicks(browser, page))
        browser.close()
    print(f"{page.name}, {page.stat().st_size / 1e6:.2f} MB in Chromium")
    print(f"  opened: {statistics.median(ready):.2f} s (goal: {OPEN} s)")
    print(f"  first paint of the verdict: {statistics.median(paints):.2f} s (goal: {FIRST_PAINT} s)")
    for name, values in clicks.items():
        first, *again = (value * 1e3 for value in values)
        print(f"  {name}: first {first:.0f} ms, then {statistics.median(again):.0f} ms (goal: {CLICK * 1e3:.0f} ms)")
    slow = [name for name, (_, *again) in clicks.items() if statistics.median(again) > CLICK]
    if slow:
        print(f"  slower than the goal: {', '.join(slow)}")
    return statistics.median(paints) <= FIRST_PAINT and statistics.median(ready) <= OPEN and not slow


def _opened(browser: Any, page: Path) -> tuple[float, float]:
    """Return after how many seconds the verdict was painted, and the page could be used."""
    opened = browser.new_page(viewport={"width": 1280, "height": 860})
    opened.goto(f"file://{page}")
    opened.wait_for_selector("body[data-ready]", timeout=60_000)
    found = float(opened.evaluate(_PAINT)), float(opened.evaluate("performance.now() / 1000"))
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
