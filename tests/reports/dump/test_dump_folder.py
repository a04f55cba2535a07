"""Which files a dump may overwrite."""

import json
import os
from pathlib import Path

import pytest

from ctrace.inspector.errors import DumpError
from ctrace.reports.dump.dump_folder import Folder


def dumped(path: Path, **files: str) -> None:
    folder = Folder(path)
    folder.begin()
    for name, text in files.items():
        folder.write(f"part/{name}.py", text)
    folder.finish({})


def test_an_earlier_dump_is_replaced(tmp_path: Path):
    dumped(tmp_path / "d", old="1", same="2")
    dumped(tmp_path / "d", same="3")
    assert sorted(each.name for each in (tmp_path / "d" / "part").iterdir()) == ["same.py"]
    index = json.loads((tmp_path / "d" / "index.json").read_text())
    assert (index["complete"], list(index["files"])) == (True, ["part/same.py"])


def test_a_folder_with_other_files(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DumpError, match="did not write"):
        dumped(tmp_path, a="1")
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_a_changed_kernel_file(tmp_path: Path):
    dumped(tmp_path, a="1", b="2")
    (tmp_path / "part" / "b.py").write_text("better")
    with pytest.raises(DumpError, match=r"b\.py was changed"):
        dumped(tmp_path, a="1")
    assert (tmp_path / "part" / "a.py").read_text() == "1"
    assert (tmp_path / "part" / "b.py").read_text() == "better"


@pytest.mark.parametrize("name", ["../out.py", "/tmp/out.py", "part/../../out.py", "a/b/c.py", "a\0.py", ""])
def test_an_index_that_names_outside_files(tmp_path: Path, name: str):
    victim = tmp_path / "out.py"
    victim.write_text("mine")
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "index.json").write_text(json.dumps({"tool": "ctrace", "files": {name: ""}}))
    with pytest.raises(DumpError):
        Folder(folder).begin()
    assert victim.read_text() == "mine"


def test_links_are_not_followed(tmp_path: Path):
    dumped(tmp_path / "d", a="1")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("mine")
    (tmp_path / "d" / "part" / "a.py").unlink()
    (tmp_path / "d" / "part").rmdir()
    (tmp_path / "d" / "part").symlink_to(outside)
    with pytest.raises(DumpError, match="is a link"):
        dumped(tmp_path / "d", a="2")
    assert (outside / "a.py").read_text() == "mine"


def test_a_linked_file_is_replaced_not_followed(tmp_path: Path):
    dumped(tmp_path / "d", a="1")
    victim = tmp_path / "victim"
    victim.write_text("1")
    path = tmp_path / "d" / "part" / "a.py"
    path.unlink()
    path.symlink_to(victim)
    dumped(tmp_path / "d", a="2")
    assert (victim.read_text(), path.read_text(), path.is_symlink()) == ("1", "2", False)


def test_a_linked_index(tmp_path: Path):
    dumped(tmp_path / "other")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "index.json").symlink_to(tmp_path / "other" / "index.json")
    with pytest.raises(DumpError, match="did not write"):
        Folder(tmp_path / "d").begin()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path: Path):
    tmp_path.chmod(0o500)
    with pytest.raises(DumpError, match="cannot be written"):
        Folder(tmp_path / "d").begin()


def test_a_file_instead_of_a_folder(tmp_path: Path):
    (tmp_path / "d").write_text("")
    with pytest.raises(DumpError, match="is not a folder"):
        Folder(tmp_path / "d").begin()
