"""The Markdown report."""

import re

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.explain_document import explain_document
from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.load import load_log
from ctrace.reports.markdown import picture
from tests.support import sessions
from tests.support.explained import explain_markdown
from tests.support.golden import assert_golden
from tests.support.places import DATA
from tests.support.poison import poisoned, poisons


@pytest.mark.parametrize("name", sessions.ALL)
def test_report(name: str) -> None:
    assert_golden(f"{name}.md", explain_markdown(sessions.ALL[name]))


def test_foreign_text_is_not_markup() -> None:
    text = re.sub(r"(`+).+?\1(?!`)", "", explain_markdown(sessions.HOSTILE))  # code spans show text as it is
    assert "<b>" not in text
    assert "</script>" not in text


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("`a_b` turns <it> into *c*.", "`a_b` turns &lt;it&gt; into \\*c\\*."),
        ("Guard with `if not x|y`.", "Guard with `if not x\\|y`."),
        ("one ` alone, a_b", "one \\` alone, a\\_b"),
        ("`a` and `b` and `c", "`a` and `b` and \\`c"),
        ('remove `print(f"`{x}`")`, or a_b', 'remove `` print(f"`{x}`") ``, or a\\_b'),
        ('`print(f"{x}`")` writes', '`` print(f"{x}`") `` writes'),
        ("`f(x` and `g(y)`", "`f(x` and `g(y)`"),
        ("`f(x`, cut; `y`, and `z`.", "`f(x`, cut; `y`, and `z`."),
    ],
)
def test_code_in_our_sentences_stays_code(reason: str, shown: str) -> None:
    report = explain_markdown(Session(breaks=(sessions.bare_break(reason=reason),)))
    assert f"| {shown} | " in report


def test_the_costliest_break_goes_first() -> None:
    report = explain_markdown(sessions.PARTIAL)
    assert report.index("| `model.py:24 GB0098` |") < report.index("| `model.py:10 GB0059` |")
    assert "| 6 ops in eager |" in report


def test_what_to_do_and_why_come_before_all_findings() -> None:
    report = explain_markdown(sessions.PARTIAL)
    places = [report.index(part) for part in ("**What to do**", "| cause |", "| graph break |", "| fact |")]
    assert places == sorted(places)


def test_every_row_of_a_table_has_its_columns() -> None:
    width = 0
    for line in explain_markdown(sessions.HOSTILE).splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line))
        if not line.startswith("|"):
            width = 0
        elif width:
            assert cells == width, line
        else:
            width = cells


LINE = re.compile(
    r"  ("
    r'c\d+\["[^"`<>|\[\]{}]*(<br/>[^"`<>|\[\]{}]*)*"\]'
    r'|b\d+\{\{"[^"`<>|\[\]{}]*(<br/>[^"`<>|\[\]{}]*)*"\}\}'
    r"|style b\d+ stroke:#d73a49|c\d+ --> b\d+|b\d+ -->\|resumes\| c\d+|c\d+ -\.->\|recompiles\| c\d+)"
)


def body(session: Session) -> list[str]:
    lines = "\n".join(picture(explain_document(session))).strip("\n").split("\n")
    assert lines[:2] == ["```mermaid", "flowchart TD"]
    return lines[2 : lines.index("```")]


def test_one_graph_needs_no_picture():
    assert list(picture(explain_document(sessions.HEALTHY))) == []
    assert "mermaid" not in explain_markdown(Session())


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
    if list(picture(explain_document(session))):
        for line in body(session):
            assert LINE.fullmatch(line), line


def test_a_large_run_has_a_small_picture():
    session = sessions.PARTIAL
    many = tuple(replace(session.compilations[0], id=f"{at}/0") for at in range(40))
    text = "\n".join(picture(explain_document(replace(session, compilations=many))))
    assert text.count("\n  c") <= 24
    assert "Not in the picture: 28 compilations" in text
