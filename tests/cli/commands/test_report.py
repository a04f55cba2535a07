"""`ctrace report`: where the page is written, and what is refused."""

import webbrowser
from pathlib import Path

import pytest

from tests.support.helpers import Log
from tests.support.inprocess import ctrace
from tests.support.places import DATA

LOG = str(DATA / "fused.log")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_writes_one_file(folder: Path):
    ran = ctrace("report", LOG)
    assert (ran.code, ran.out, ran.err) == (0, "", "Wrote report.html\n")
    assert [each.name for each in folder.iterdir()] == ["report.html"]
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_an_existing_file_stays(folder: Path):
    (folder / "report.html").write_text("mine")
    ran = ctrace("report", LOG)
    assert ran.code == 2
    assert ran.err == "ctrace: report.html exists already\n  name another file with -o, or replace it with --force\n"
    assert (folder / "report.html").read_text() == "mine"


def test_force_replaces_it(folder: Path):
    (folder / "report.html").write_text("mine")
    assert ctrace("report", LOG, "--force").code == 0
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_dangling_link_is_not_an_existing_file(folder: Path):
    (folder / "report.html").symlink_to(folder / "elsewhere.html")
    assert ctrace("report", LOG).code == 0
    assert (folder / "elsewhere.html").is_file()


def test_stdout(folder: Path):
    ran = ctrace("report", LOG, "-o", "-")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("</html>\n")
    assert list(folder.iterdir()) == []


def test_open_needs_a_file():
    ran = ctrace("report", LOG, "-o", "-", "--open")
    assert ran.code == 2
    assert "--open needs a file" in ran.err


def test_no_such_folder():
    ran = ctrace("report", LOG, "-o", "nowhere/report.html")
    assert ran.code == 2
    assert "there is no folder nowhere" in ran.err


@pytest.mark.parametrize("is_found", [True, False])
def test_open(folder: Path, monkeypatch: pytest.MonkeyPatch, is_found: bool):
    opened = []

    def open_(url: str) -> bool:
        opened.append(url)
        return is_found

    monkeypatch.setattr(webbrowser, "open", open_)
    ran = ctrace("report", LOG, "--open")
    assert ran.code == 0
    assert opened == [(folder / "report.html").as_uri()]
    assert ("no browser was found" in ran.err) == (not is_found)
    assert (str(folder / "report.html") in ran.err) == (not is_found)


def test_a_browser_that_fails_is_no_browser(monkeypatch: pytest.MonkeyPatch):
    def fails(url: str) -> bool:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "open", fails)
    ran = ctrace("report", LOG, "--open")
    assert ran.code == 0
    assert "no browser was found" in ran.err


def test_a_cut_log_says_what_is_missing(folder: Path):
    text = (DATA / "fused.log").read_text(encoding="utf-8")
    (folder / "cut.log").write_text(text[: len(text) // 2], encoding="utf-8")
    assert ctrace("report", "cut.log").code == 0
    assert "The log is incomplete" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_newer_run_is_refused(folder: Path):
    text = Log().started(schema=2).text
    (folder / "newer.log").write_text(text, encoding="utf-8")
    ran = ctrace("report", "newer.log")
    assert ran.code == 2
    assert "newer ctrace" in ran.err
    assert not (folder / "report.html").exists()
