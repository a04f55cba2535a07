"""Merging changes and writing patches."""

import subprocess
from pathlib import Path

from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace
from ctrace.inspector.features.fix.repairs.repair_texts import (
    changed_lines,
    merged,
    merged_files,
    patch_of,
    reversed_patch,
)
from ctrace.inspector.source.text import replaced_lines
from tests.support.repaired import REPAIRS

BASE = "a\nb\nc\nd\ne\n"


def test_changes_of_different_lines_are_merged():
    assert merged(BASE, "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n") == "A\nb\nc\nd\nE\n"


def test_an_equal_change_is_made_once():
    new = "import x\na\nb\nc\nd\ne\n"
    assert merged(BASE, new, new) == new
    assert merged(BASE, new, "import x\na\nb\nc\nd\nE\n") == "import x\na\nb\nc\nd\nE\n"


def test_changes_of_one_line_are_not_merged():
    assert merged(BASE, "a\nB\nc\nd\ne\n", "a\nBB\nc\nd\ne\n") is None


def test_insertions_at_one_place_follow_each_other():
    assert merged(BASE, "a\nx\nb\nc\nd\ne\n", "a\ny\nb\nc\nd\ne\n") == "a\nx\ny\nb\nc\nd\ne\n"


def test_an_insertion_at_a_changed_line_is_not_merged():
    assert merged(BASE, "a\nx\nb\nc\nd\ne\n", "a\ny\nc\nd\ne\n") is None


def test_files_are_merged_by_name():
    base = {"f": BASE, "g": BASE}
    first, second = (NewText("f", "A\nb\nc\nd\ne\n"),), (NewText("f", "a\nb\nc\nd\nE\n"), NewText("g", "x\n"))
    assert merged_files(base, first, second) == (NewText("f", "A\nb\nc\nd\nE\n"), NewText("g", "x\n"))


def test_a_patch_applies_and_takes_itself_back(tmp_path: Path):
    for before, after in ((BASE, "a\nB\nc\nd\n"), ("a\nb", "a\nc"), ("a\r\nb\r\n", "a\r\nc\r\n")):
        file = tmp_path / "f.py"
        file.write_bytes(before.encode())
        base, files = {str(file): before}, [NewText(str(file), after)]
        for patch, text in (
            (patch_of(base, files, str(tmp_path)), after),
            (reversed_patch(base, files, str(tmp_path)), before),
        ):
            subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=patch.encode(), cwd=tmp_path, check=True)
            assert file.read_bytes().decode() == text


def test_changed_lines_are_counted():
    assert changed_lines({"/f": BASE}, [NewText("/f", "a\nB\nc\nd\ne\n")]) == 2
    assert replaced_lines(BASE, "a\nB\nc\nd\ne\nf\n") == {2}


def test_a_byte_order_mark_stays():
    source = "\ufeffimport torch\n\n\ndef f(x):\n    return x * x.max().item()\n"
    place = RepairPlace("/model.py", source, 5, "f")
    assert [each.source for each in REPAIRS["tensor_scalar"].find(place)] == [source.replace("item", "detach")]
