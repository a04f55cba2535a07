"""The notebook of the documentation runs, and shows pages that open in a frame."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.places import ROOT

NOTEBOOK = ROOT / "docs" / "guide" / "notebook.ipynb"


@pytest.fixture(scope="module")
def ran() -> Any:
    """Run the notebook once; an error in a cell fails the test."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=280, resources={"metadata": {"path": str(ROOT)}}).execute()
    return notebook


def run(*cells: str) -> list[Any]:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    NotebookClient(notebook, timeout=280, allow_errors=True, resources={"metadata": {"path": str(ROOT)}}).execute()
    return [each.outputs for each in notebook.cells]


def shown(notebook: Any, kind: str) -> list[str]:
    found = (output.get("data", {}) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
    return [str(data[kind]) for data in found if kind in data]


@pytest.mark.long
def test_the_notebook_runs(ran: Any):
    pages = shown(ran, "text/html")
    assert len(pages) == 2
    assert all(page.startswith('<iframe title="ctrace" sandbox="allow-scripts"') for page in pages)
    texts = shown(ran, "text/plain")
    assert any("Fully compiled: 1 graph" in text for text in texts)
    assert any(text.startswith("PARTIAL") and "1 graph break" in text for text in texts)
    printed = "".join(str(output.text) for output in ran.cells[-1].outputs if output.output_type == "stream")
    assert printed.startswith("COMPILED")
    assert "\x1b" not in printed


def test_a_page_in_a_frame_can_be_used(ran: Any, page: Any, tmp_path: Path):
    file = tmp_path / "cell.html"
    file.write_text("<!doctype html><title>notebook</title>" + shown(ran, "text/html")[0], encoding="utf-8")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(f"file://{file}")
    frame = page.frame_locator("iframe")
    frame.locator("nav a[data-page=code]").click()
    frame.locator(".pane.graph .row").nth(1).click()
    assert frame.locator(".pane.graph .row.picked").count() == 1
    frame.locator("nav a[data-page=fusion]").click()
    frame.get_by_label("Round of fusion").focus()
    page.keyboard.press("End")
    last = frame.locator(".caption").inner_text()
    page.keyboard.press("Home")
    assert frame.locator(".caption").inner_text() != last
    assert page.frames[1].url.startswith("about:srcdoc#")
    assert errors == []


@pytest.mark.long
def test_bad_input_and_errors_in_a_cell():
    loaded, wrong, raised = run("%load_ext ctrace", "%%ctrace --bild\n1", "%%ctrace --text\n1 / 0")
    assert loaded == []
    assert [output.text for output in wrong] == [
        "ctrace: --bild is no option of the magic\n  write: %%ctrace [--build] [--text]\n"
    ]
    assert raised[0].ename == "ZeroDivisionError"
    assert raised[1].text.startswith("NOT COMPILED")


@pytest.mark.long
def test_places_name_the_cell_and_its_line():
    """Lines of a cell with the magic are counted as the notebook shows them."""
    define = "import torch, ctrace\ndef f(x):\n    print('hi')\n    return x * 2"
    explain = (
        "from ctrace import text as session_text\n"
        "session = ctrace.explain(f, torch.rand(3))\n"
        "print(session.breaks[0].file, session.breaks[0].line, 'In[1]' in session.listings)\n"
        "print(session_text(session))"
    )
    magic = "%%ctrace --text\ndef g(x):\n    print('ho')\n    return x * 3\ntorch.compile(g)(torch.rand(3))"
    outputs = run(define, explain, "%load_ext ctrace", magic)
    explained, traced = ("".join(str(each.get("text", "")) for each in outputs[at]) for at in (1, 3))
    assert "In[1] 3 True" in explained
    assert " In[1]:3: remove `print('hi')`" in explained
    assert "In[1]:3 in f" in explained
    assert "In[4]:3 in g" in traced
    assert "ipykernel" not in explained + traced
