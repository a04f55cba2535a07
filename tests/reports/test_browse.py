"""`ctrace browse`, driven by keys and mouse; hostile text; and the terminal that it leaves behind."""

import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.load import load_log
from ctrace.reports.browsing import VIEWS, BrowsedRun, Browser, Help, Lines, Search, lines_of
from tests.support import fusions, guarded, kernelsessions, sessions, targeted
from tests.support.inprocess import ctrace
from tests.support.looped import run
from tests.support.places import DATA, ROOT
from tests.support.poison import poisoned, poisons
from tests.support.sampling import sampled

MADE = {
    **sessions.ALL,
    "kernels": kernelsessions.KERNELS,
    "emitted": targeted.EMITTED,
    "fused": fusions.FUSED,
    "guarded": guarded.GUARDED,
    "empty": Session(),
}
RUN = DATA / "diff" / "one_op_more.log.gz"


def drive(session: Session, act: Callable[[Browser, Any], Awaitable[None]], size: tuple[int, int] = (120, 36)) -> None:
    async def driven() -> None:
        app = Browser(session)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            await act(app, pilot)

    run(driven())


async def settled(pilot: Any) -> None:
    for _ in range(3):
        await pilot.pause()


def shown(app: Browser, name: str) -> list[str]:
    pane = app.query_one(f"#{name}", Lines)
    return [pane.render_line(y).text for y in range(pane.scrollable_content_region.height)]


def first_line_with_a_node(app: Browser) -> int:
    places = [each.place for each in app.data.nodes(app.graph, app.stage) if each.place.startswith(f"{app.file}:")]
    return int(places[0].rpartition(":")[2])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "size"), [*((name, (80, 24)) for name in MADE), ("kernels", (140, 50)), ("partial", (140, 50))]
)
def test_every_view_opens(name: str, size: tuple[int, int]):
    async def act(app: Browser, pilot: Any) -> None:
        for key in "1234567890":
            await pilot.press(key)
            await settled(pilot)
            pane = "source" if app.view == "code" else "text"
            assert app.focused is app.query_one(f"#{pane}", Lines)
            if pane == "text":
                assert any(line.strip() for line in shown(app, "text")), app.view

    drive(MADE[name], act, size)


@pytest.mark.thorough
def test_a_line_lights_up_its_nodes_and_back():
    async def act(app: Browser, pilot: Any) -> None:
        await pilot.press("2")
        await settled(pilot)
        line = first_line_with_a_node(app)
        await pilot.press("home", *["down"] * (line - 1))
        await settled(pilot)
        nodes = app.data.nodes(app.graph, app.stage)
        assert app.linked.nodes == {each.name for each in nodes if each.place == f"{app.file}:{line}"}
        assert app.linked.kernels
        assert app.query_one("#graph", Lines).marks
        await pilot.press("tab")
        at = next(at for at, each in enumerate(nodes) if each.name in app.linked.nodes)
        await pilot.press("home", *["down"] * at)
        await settled(pilot)
        assert app.linked.places == {nodes[at].place}
        assert list(app.query_one("#source", Lines).marks) == [line - 1]

    drive(load_log(RUN), act)


@pytest.mark.thorough
def test_a_click_picks_a_line():
    async def act(app: Browser, pilot: Any) -> None:
        await pilot.press("2")
        await settled(pilot)
        await pilot.click("#graph", offset=(5, 3))
        await settled(pilot)
        assert app.query_one("#graph", Lines).cursor == 2
        assert app.data.nodes(app.graph, app.stage)[2].name in app.linked.nodes
        await pilot.click("#views", offset=(3, 4))
        await settled(pilot)
        assert app.view == app.names[4]

    drive(load_log(RUN), act)


def test_stages_kernels_files_and_graphs():
    async def act(app: Browser, pilot: Any) -> None:
        await pilot.press("2")
        labels = app.data.graphs[app.graph]
        before = app.stage
        await pilot.press("left_square_bracket")
        await settled(pilot)
        assert labels.index(app.stage) == labels.index(before) - 1
        await pilot.press("right_square_bracket", "n", "p", "f", "g")
        await settled(pilot)
        assert app.stage in labels

    drive(load_log(RUN), act)


def test_search_opens_what_it_finds():
    async def act(app: Browser, pilot: Any) -> None:
        node = app.data.nodes(app.graph, app.stage)[-1].name
        await pilot.press("slash")
        assert isinstance(app.screen, Search)
        await pilot.press(*node)
        await settled(pilot)
        await pilot.press("down", "enter")
        await settled(pilot)
        assert app.view == "code"
        await pilot.press("slash", *"nosuchtext", "enter")
        await settled(pilot)
        assert not isinstance(app.screen, Search)
        await pilot.press("slash", "escape")
        assert not isinstance(app.screen, Search)

    drive(load_log(RUN), act)


def test_keys_are_listed():
    async def act(app: Browser, pilot: Any) -> None:
        await pilot.press("question_mark")
        assert isinstance(app.screen, Help)
        await pilot.press("escape")
        assert not isinstance(app.screen, Help)

    drive(sessions.HEALTHY, act)


@pytest.mark.parametrize("way", poisons())
@pytest.mark.parametrize("name", sampled(["partial", "kernels", "guarded"]))
def test_hostile_text_moves_no_cursor(name: str, way: str):
    session = poisoned(MADE.get(name) or sessions.PARTIAL, poisons()[way])
    texts = [line.plain for view in VIEWS for line in lines_of(view, session, 100)]
    data = BrowsedRun(session)
    texts += [line for lines in data.files.values() for line in lines]
    texts += [line for kernel in data.kernels for line in (kernel.name, *kernel.lines)]
    texts += [
        node.text for graph, labels in data.graphs.items() for label in labels for node in data.nodes(graph, label)
    ]
    assert not any(re.search(r"[\x00-\x1f\x7f-\x9f\u202e\u2066\u200e]", each) for each in texts)


@pytest.mark.thorough
def test_a_million_lines_and_a_long_line_cost_one_screen():
    session = load_log(RUN)
    file = next(iter(session.listings))
    session = replace(session, listings={file: "x" * 10_000_000 + "\n" + "pass\n" * 1_000_000})

    async def act(app: Browser, pilot: Any) -> None:
        await pilot.press("2", "end")
        await settled(pilot)
        assert app.query_one("#source", Lines).cursor == 1_000_001
        assert "1000002" in "".join(shown(app, "source"))

    drive(session, act)


def test_without_a_terminal_it_says_what_to_use():
    found = ctrace("browse", str(RUN))
    assert found.code == 2
    assert "ctrace browse needs a terminal" in found.err
    assert "ctrace explain" in found.err


@pytest.mark.parametrize("way", sampled(["q", "SIGTERM"]))
def test_the_terminal_is_left_as_it_was(way: str, tmp_path: Path):
    """The program leaves the alternate screen, shows the cursor, and stops mouse reports, on any end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.environ.update(TERM="xterm-256color", COLUMNS="100", LINES="30", PYTHONPATH=str(ROOT))
        os.execv(sys.executable, [sys.executable, "-m", "ctrace", "browse", str(RUN)])
    seen = _until(terminal, b"Quit")
    if way == "q":
        os.write(terminal, b"q")
    else:
        os.kill(pid, signal.SIGTERM)
    seen += _until(terminal, None)
    _, status = os.waitpid(pid, 0)
    assert seen.rfind(b"\x1b[?1049l") > seen.rfind(b"\x1b[?1049h") > -1
    assert seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l")
    assert seen.rfind(b"\x1b[?1000l") > seen.rfind(b"\x1b[?1000h")
    assert os.waitstatus_to_exitcode(status) == (0 if way == "q" else 128 + signal.SIGTERM)


def _until(terminal: int, text: bytes | None) -> bytes:
    """Read until some text appears, or until the end."""
    seen, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([terminal], [], [], 0.5)
        if not ready:
            continue
        try:
            part = os.read(terminal, 65536)
        except OSError:
            return seen
        seen += part
        if not part or (text is not None and text in seen):
            return seen
    raise AssertionError(f"{text!r} did not appear: {seen[-500:]!r}")
