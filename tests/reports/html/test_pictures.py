"""The page looks as in the pictures of tests/data/pictures, at two widths, within a tolerance.

Fonts decide where lines break, and machines have different ones: with other fonts than those of the pictures, the tests
are skipped. `CTRACE_UPDATE_GOLDEN=1` writes the pictures; look at them before you commit them.
"""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support import sessions
from tests.support.places import DATA

PICTURES = DATA / "pictures"
FONTS = PICTURES / "fonts.json"
PAGES = ("summary", "source")
WIDTHS = (1280, 390)
GRAY = 48
"""By how much of 255 a point must differ to count as another one."""
MOST = 0.02
"""The share of other points that is tolerated: smoothing of letters, not a moved or missing part."""
_MEASURED = """() => ["system-ui", "ui-monospace, DejaVu Sans Mono, monospace"].map((font) => {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `100px ${font}`;
  return Math.round(context.measureText("Graph breaks: 0123456789 ✓ → ▾").width);
})"""
_SMALL = """async ([picture, width]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, Math.round((image.height * width) / image.width)];
  const context = canvas.getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
  const gray = [];
  for (let at = 0; at < data.length; at += 4) gray.push(Math.round((data[at] + data[at + 1] + data[at + 2]) / 3));
  return { png: canvas.toDataURL("image/png").split(",")[1], gray };
}"""


def small(page: Any, picture: bytes, width: int) -> tuple[bytes, list[int]]:
    """Return a picture with another width, as PNG and as the gray of each point."""
    found = page.evaluate(_SMALL, [base64.b64encode(picture).decode(), width])
    return base64.b64decode(found["png"]), found["gray"]


def differing(one: list[int], other: list[int]) -> float:
    """Return the share of points that differ; all do in pictures of another size."""
    if len(one) != len(other):
        return 1.0
    return sum(abs(a - b) > GRAY for a, b in zip(one, other, strict=True)) / len(one)


def shot(opened: Any, name: str, width: int) -> tuple[Any, bytes]:
    """Return a picture of a page, half as wide, and a browser page without a policy."""
    report = opened(sessions.PARTIAL, width)
    page = report.go(name)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    taken = page.screenshot()
    page.goto("about:blank")
    return page, small(page, taken, width // 2)[0]


def skip_with_other_fonts(page: Any) -> None:
    found = page.evaluate(_MEASURED)
    if os.environ.get("CTRACE_UPDATE_GOLDEN"):
        FONTS.write_text(json.dumps(found) + "\n", encoding="utf-8")
    elif found != json.loads(FONTS.read_text(encoding="utf-8")):
        pytest.skip(f"the pictures were made with other fonts than this machine's: {found}")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_the_page_looks_as_before(opened: Any, tmp_path: Path, name: str, width: int):
    page, now = shot(opened, name, width)
    skip_with_other_fonts(page)
    golden = PICTURES / f"{name}-{width}.png"
    if os.environ.get("CTRACE_UPDATE_GOLDEN"):
        assert not os.environ.get("CI"), "CI must not rewrite pictures: nobody would look at the changes"
        golden.write_bytes(now)
    (tmp_path / golden.name).write_bytes(now)
    before, after = (small(page, each, width // 8)[1] for each in (golden.read_bytes(), now))
    share = differing(before, after)
    assert share <= MOST, f"{share:.1%} of {golden.name} differ from {tmp_path / golden.name}"


def test_another_page_is_another_picture(opened: Any):
    page, summary = shot(opened, "summary", 1280)
    golden = (PICTURES / "source-1280.png").read_bytes()
    assert differing(small(page, summary, 160)[1], small(page, golden, 160)[1]) > MOST
