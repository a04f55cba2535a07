"""Pages in the browser of tests/conftest.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.reports.html.html_page import render_html


class Opened:
    """A page in the browser, and what went wrong there."""

    def __init__(self, browser: Any, file: Path, width: int) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 860})
        self.page = self.context.new_page()
        self.file = file
        self.loaded = 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("console", lambda message: self.errors.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def go(self, hash_: str) -> Any:
        """Open a page of the report, and wait until it is there."""
        self.loaded += 1
        self.page.goto(f"file://{self.file}?{self.loaded}#{hash_}")  # another address: the file is loaded anew
        self.ready()
        return self.page

    def turn(self, name: str) -> Any:
        """Go to another page as a link does, without loading the file anew, which takes most of a test's time."""
        if not self.loaded:
            return self.go(name)
        self.page.goto(f"file://{self.file}?{self.loaded}#{name}")
        self.page.wait_for_selector(f"body[data-ready={name}]", timeout=60_000)
        return self.page

    def ready(self) -> None:
        self.page.wait_for_selector("body[data-ready]", timeout=60_000)

    def until(self, condition: str) -> None:
        """Wait for a condition in JavaScript; the page's policy forbids Playwright's own way to do so, which is `eval`."""
        for _ in range(600):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never true: {condition}")

    def foreign(self) -> list[str]:
        """Return requests other than for the file itself."""
        return [url for url in self.requests if not url.startswith(("file://", "about:"))]


@pytest.fixture
def opened(opened_page: Any) -> Any:
    """Return a function that writes a session as a page and opens it."""

    def open_(session: Session, width: int = 1280) -> Opened:
        return opened_page(render_html(session), width)

    return open_


@pytest.fixture
def opened_page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Return a function that writes a page into a file and opens it."""
    found: list[Opened] = []

    def open_(text: str, width: int = 1280) -> Opened:
        file = tmp_path / f"report-{len(found)}.html"
        file.write_text(text, encoding="utf-8")
        found.append(Opened(browser, file, width))
        return found[-1]

    yield open_
    for each in found:
        each.context.close()
