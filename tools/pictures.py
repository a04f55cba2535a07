"""Make the pictures of README and docs from real runs: screens of the terminal, and the page in a browser.

Run it with `make pictures`; it needs `pip install -e '.[browser]'` and Chromium.
"""

import asyncio
import base64
import io
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
MODEL = "sample_models/attention.py"
BROKEN = "sample_models/attention_print.py"
MOST_BYTES = 300_000
_WIDTH = 100
_PAGE = {"width": 1120, "height": 560}
_PIXELS = """async (shot) => {
  const image = new Image();
  image.src = `data:image/png;base64,${shot}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  let letters = "";
  for (let at = 0; at < data.length; at += 8192) letters += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(letters);
}"""
_FONT_FACES = re.compile(r"@font-face\s*\{[^}]*\}\s*")


def main() -> None:
    """Capture two runs and write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ctrace-pictures-") as scratch:
        os.environ["CTRACE_DIR"] = f"{scratch}/runs"
        screen = _ctrace("explain", BROKEN, "--name", "broken")
        _ctrace("explain", MODEL, "--train", "--target", "h100", "--name", "attention")
        _write("explain.svg", _terminal(screen, f"ctrace explain {BROKEN}"))
        _write("browse.svg", asyncio.run(_browse()))
        page = Path(scratch, "report.html")
        _ctrace("report", "attention", "-o", str(page))
        breaks = Path(scratch, "breaks.html")
        _ctrace("report", "broken", "-o", str(breaks))
        with _browser() as browser:
            _page(browser, page, "code", _selected(), "report-code.png")
            _page(browser, breaks, "source", "source", "report-breaks.png")
    total = sum(each.stat().st_size for each in FOLDER.iterdir())
    print(f"{len(list(FOLDER.iterdir()))} pictures, {total:,} bytes")
    if total > MOST_BYTES:
        sys.exit(f"the pictures have more than {MOST_BYTES:,} bytes")


def _ctrace(*words: str) -> str:
    """Run ctrace at the top of the checkout, and return its screen with colors."""
    environment = {**os.environ, "COLUMNS": str(_WIDTH), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "ctrace", *words]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def _terminal(screen: str, command: str) -> str:
    """Draw a screen below its command."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "dim"), command))
    console.print(Text.from_ansi(screen.rstrip("\n")))
    return _without_fonts(console.export_svg(title="ctrace", unique_id="ctrace"))


async def _browse() -> str:
    """Draw `ctrace browse` with a line selected."""
    from ctrace.inspector.runs.load import load
    from ctrace.inspector.runs.store import Store
    from ctrace.reports.browsing import Browser

    app = Browser(load(Store().load("attention")))
    async with app.run_test(size=(104, 24)) as pilot:
        await pilot.press("2")
        for _ in range(3):
            await pilot.pause()
        await pilot.press("home", *["down"] * 30)
        for _ in range(3):
            await pilot.pause()
        return _without_fonts(app.export_screenshot(title="ctrace browse"))


def _without_fonts(svg: str) -> str:
    """Remove the fonts that the picture would load from the network."""
    return _FONT_FACES.sub("", svg)


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CTRACE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("the pictures need Chromium; CTRACE_CHROMIUM names it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-lcd-text"])
        yield browser
        browser.close()


def _selected() -> str:
    """Return the address of the line that divides by the sum: one line of the softmax kernel."""
    lines = (ROOT / MODEL).read_text(encoding="utf-8").splitlines()
    line = next(at for at, text in enumerate(lines, 1) if "weights =" in text)
    return f"code?sel=line~{MODEL}:{line}"


def _page(browser: Any, file: Path, name: str, address: str, picture: str) -> None:
    opened = browser.new_page(viewport=_PAGE, color_scheme="light")
    opened.goto(f"file://{file}#{address}")
    opened.wait_for_selector(f"body[data-ready={name}]")
    opened.wait_for_timeout(500)
    shot = opened.screenshot()
    opened.goto("about:blank")  # the page's policy forbids the script
    pixels = base64.b64decode(opened.evaluate(_PIXELS, base64.b64encode(shot).decode("ascii")))
    opened.close()
    (FOLDER / picture).write_bytes(_small_png(pixels, _PAGE["width"], _PAGE["height"]))


def _small_png(rgba: bytes, width: int, height: int) -> bytes:
    """Write a PNG with a palette, which is a third as large as one with all colors."""
    pixels = np.frombuffer(rgba, np.uint8).reshape(-1, 4)[:, :3].astype(np.int32)
    codes = pixels[:, 0] << 16 | pixels[:, 1] << 8 | pixels[:, 2]
    colors, index, counts = np.unique(codes, return_inverse=True, return_counts=True)
    kept = colors[np.argsort(-counts)[:256]]
    channels = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=1)
    palette = np.stack([kept >> 16, kept >> 8 & 255, kept & 255], axis=1)
    nearest = np.argmin(((channels[:, None, :] - palette[None, :, :]) ** 2).sum(axis=2), axis=1).astype(np.uint8)
    rows = nearest[index.reshape(-1)].reshape(height, width)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(raw, 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _write(name: str, text: str) -> None:
    (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
