"""`ctrace schema`, without torch."""

import json
from pathlib import Path

from tests.cli.test_main import _ctrace
from tests.support.places import ROOT


def test_alone_it_lists_the_commands(tmp_path: Path) -> None:
    done = _ctrace("schema", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"explain", "check", "kernels"} < set(done.stdout.split())


def test_one(tmp_path: Path) -> None:
    done = _ctrace("schema", "check", "-o", "check.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    read = json.loads((tmp_path / "check.json").read_text())
    assert read["title"] == "ctrace check --json"
    assert read["properties"]["verdict"]["enum"] == ["holds", "worse", "untrusted", "failed", "wrong"]
    assert (tmp_path / "check.json").read_text() == (ROOT / "reports" / "schemas" / "check.json").read_text()


def test_an_unknown_name(tmp_path: Path) -> None:
    done = _ctrace("schema", "explian", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean `ctrace schema explain`?" in done.stderr
    assert "name one of: accuracy, autotune" in _ctrace("schema", "zzz", cwd=tmp_path).stderr
