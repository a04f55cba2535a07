"""The streams of the command line: a terminal or CI system obeys no text written there."""

import ast
import sys

import pytest

from ctrace.cli.console import complain, guarded_streams, say
from tests.support.obeyed import obeyed
from tests.support.places import ROOT
from tests.support.poison import COMMANDS, UNSEEN

WRITERS = {
    "cli/console.py", "cli/main.py", "cli/progress.py", "cli/show.py", "cli/streams.py",
    "cli/commands/browse.py", "cli/notebook.py", "cli/serving_page.py", "reports/browsing.py",
}  # fmt: skip
"""Modules that may write to a stream, ask what it is, or make a console; all others go through them."""


def test_a_message_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"Wrote {UNSEEN}{COMMANDS}")
    complain(f"there is no file {COMMANDS}", COMMANDS)
    err = capsys.readouterr().err
    assert obeyed(err) == []
    assert len(err.splitlines()) == 3


def test_a_long_message_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    say("x" * 30_000_000)
    err = capsys.readouterr().err
    assert len(err) < 5_000
    assert "29,996,000 more characters" in err


def test_output_of_other_code_is_guarded_too(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stderr
    with guarded_streams():
        print(f"a library's warning {UNSEEN}{COMMANDS}", file=sys.stderr)
        sys.stderr.writelines(["::error::x\n", "fine\n"])
        assert sys.stderr.isatty() is False
    assert sys.stderr is before
    err = capsys.readouterr().err
    assert obeyed(err) == []
    assert err.endswith("fine\n")


def test_a_closed_stream_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with guarded_streams():
        assert sys.stdout is None


def _writes(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "Console", "typer.echo", "click.echo"):
        return True
    return isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr", "sys.__stdout__")


@pytest.mark.parametrize("folder", ["cli", "reports"])
def test_no_other_module_writes(folder: str) -> None:
    files = [file for file in (ROOT / folder).rglob("*.py") if str(file.relative_to(ROOT)) not in WRITERS]
    trees = {file: ast.parse(file.read_text()) for file in files}
    assert [str(file) for file, tree in trees.items() if any(map(_writes, ast.walk(tree)))] == []
