"""The Mermaid picture in the Markdown report."""

import re

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.load import load_log
from ctrace.reports.markdown import render_markdown
from ctrace.reports.mermaid import picture
from tests.support import sessions
from tests.support.places import DATA
from tests.support.poison import poisoned, poisons

LINE = re.compile(
    r"  ("
    r'c\d+\["[^"`<>|\[\]{}]*(<br/>[^"`<>|\[\]{}]*)*"\]'
    r'|b\d+\{\{"[^"`<>|\[\]{}]*(<br/>[^"`<>|\[\]{}]*)*"\}\}'
    r"|style b\d+ stroke:#d73a49|c\d+ --> b\d+|b\d+ -->\|resumes\| c\d+|c\d+ -\.->\|recompiles\| c\d+)"
)


def body(session: Session) -> list[str]:
    lines = "\n".join(picture(session)).strip("\n").split("\n")
    assert lines[:2] == ["```mermaid", "flowchart TD"]
    return lines[2 : lines.index("```")]


def test_one_graph_needs_no_picture():
    assert list(picture(sessions.HEALTHY)) == []
    assert "mermaid" not in render_markdown(Session())


def test_a_break_lies_between_its_graphs():
    session = load_log(DATA / "print_break.log")
    lines = body(session)
    (found,) = session.breaks
    assert any(found.compilations[0] in line for line in lines)
    assert "  c0 --> b0" in lines
    assert "  b0 -->|resumes| c1" in lines


def test_recompilations_are_dashed():
    lines = body(load_log(DATA / "dynamic_sizes.log"))
    assert any("-.->|recompiles|" in line for line in lines)


@pytest.mark.parametrize("way", poisons())
@pytest.mark.parametrize("name", ["partial", "hostile", "dangerous"])
def test_hostile_labels_stay_labels(name: str, way: str):
    session = poisoned(sessions.ALL[name], poisons()[way])
    if list(picture(session)):
        for line in body(session):
            assert LINE.fullmatch(line), line


def test_a_large_run_has_a_small_picture():
    session = sessions.PARTIAL
    many = tuple(replace(session.compilations[0], id=f"{at}/0") for at in range(40))
    text = "\n".join(picture(replace(session, compilations=many)))
    assert text.count("\n  c") <= 24
    assert "Not in the picture: 28 compilations" in text
