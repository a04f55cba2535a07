"""The list of runs in a browser: it shows a run that appears, what cannot be read, and hostile names as text."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from ctrace.cli.report_server import application, listening
from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.runs.store import Store
from tests.support.places import DATA
from tests.support.poison import MARKUP

HOSTILE = f"</script><script>alert(1)</script>{MARKUP}javascript:alert(1)"


def saved(store: Store, name: str, target: str = "model.py") -> None:
    run = store.begin(Target(path=target), name)
    shutil.copy(DATA / "break_paths.log", run.log)
    store.finish(run, 1.5, None, {"verdict": "partial", "graphs": 1})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / ".ctrace")
    saved(store, "before")
    saved(store, "after", HOSTILE)
    return store


@pytest.fixture
def address(store: Store) -> Iterator[str]:
    sock = listening("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(application(store, None, "127.0.0.1"), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{sock.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)


def test_the_list(page: Any, store: Store, address: str):
    errors: list[str] = []
    foreign: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: foreign.append(request.url) if not request.url.startswith(address) else None)
    page.goto(address)
    page.wait_for_selector("table a")
    assert page.locator("table a").all_inner_texts() == ["after", "before"]
    assert page.locator("main script").count() == 0

    # A run that appears is shown, and so is one that cannot be read.
    saved(store, "third")
    page.wait_for_selector("a[href='run/third']", timeout=10_000)
    info = store.root / "third" / "run.json"
    info.write_text(json.dumps({**json.loads(info.read_text()), "schema": 999}))
    page.wait_for_selector(".alert", timeout=10_000)
    assert "newer ctrace" in page.locator(".alert").inner_text()

    # Two runs are compared, the older one first.
    page.locator("input[aria-label='Compare after']").check()
    page.locator("input[aria-label='Compare before']").check()
    page.locator(".controls a").click()
    page.wait_for_selector(".page.changes")
    assert page.url == f"{address}diff/before/after"

    # The page of a run works without an origin.
    page.goto(f"{address}run/after#code")
    page.wait_for_selector(".page.code")
    page.locator(".pane.graph .row").nth(1).click()
    page.wait_for_selector(".pane.graph .row.picked")
    assert page.evaluate("origin") == "null"
    assert (errors, foreign) == ([], [])
    page.close()
