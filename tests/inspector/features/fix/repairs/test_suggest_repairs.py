"""A change as replacements of lines."""

from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.facts.diagnosis import Replacement
from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.features.fix.repairs.suggest_repairs import replacements

LINES = st.text("ab\n\r\x0c\u2028", max_size=30)


def applied(before: str, found: tuple[Replacement, ...]) -> str:
    """Apply replacements from the last to the first, with lines that end at `\\n` alone."""
    lines = [f"{line}\n" for line in before.split("\n")]
    lines[-1] = lines[-1][:-1]
    for each in reversed(found):
        assert "".join(lines[each.line - 1 : each.end - 1]) == each.old
        lines[each.line - 1 : each.end - 1] = [each.new]
    return "".join(lines)


@given(LINES, LINES)
def test_replacements_make_the_new_text(before: str, after: str):
    assert applied(before, replacements({"/a.py": before}, [NewText("/a.py", after)])) == after


def test_an_insertion_names_the_line_before_it():
    (one,) = replacements({"/a.py": "a\nb\n"}, [NewText("/a.py", "a\nx\nb\n")])
    assert one == Replacement("/a.py", 2, 2, "", "x\n", before="a\n")


def test_files_come_one_after_another():
    found = replacements({"/a.py": "a\n", "/b.py": "b\n"}, [NewText("/b.py", "c\n"), NewText("/a.py", "")])
    assert [(each.file, each.new) for each in found] == [("/b.py", "c\n"), ("/a.py", "")]
