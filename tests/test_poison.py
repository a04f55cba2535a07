"""Every view in every format, of sessions with only hostile strings: nothing is obeyed, and all formats stay valid.

Nothing here names a field. A new field of the model, a new view option aside, is tested without a change.
"""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from ctrace.cli import run_request
from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.load import load_log
from tests.support import fusions, guarded, kernelsessions, recompiled, sessions, targeted, userkernels
from tests.support.inprocess import Ran, ctrace
from tests.support.obeyed import obeyed
from tests.support.places import DATA
from tests.support.poison import COMMANDS, MARKUP, UNSEEN, poisoned, poisons

MADE = {
    **sessions.ALL,
    "kernels": kernelsessions.KERNELS,
    "emitted": targeted.EMITTED,
    "user-kernels": userkernels.SESSION,
    "fused": fusions.FUSED,
    "guarded": guarded.GUARDED,
    "recompiled": recompiled.SEVERAL,
}
VIEWS = [
    "explain",
    "explain --json",
    "explain --markdown",
    "breaks --all",
    "breaks --json",
    "recompiles --all",
    "recompiles --json",
    "guards",
    "guards --all",
    "guards --by-line",
    "guards --by-kind",
    "guards --by-object",
    "guards --tree",
    "guards --cost",
    "guards --json",
    "shapes --all",
    "shapes --json",
    "bytecode --all --unified",
    "bytecode --all --side-by-side",
    "bytecode --source",
    "bytecode --json",
    "graphs --all",
    "graphs --json",
    "graphs --passes",
    "graphs --passes --json",
    "fusion --all -v",
    "fusion --rounds --all -v",
    "fusion --nodes --all",
    "fusion --json",
    "kernels --all",
    "kernels --source",
    "kernels --source --json",
    "kernels --wrapper",
    "kernels --wrapper --json",
    "kernels --json",
    "kernels --ir ptx",
    "kernels --ir ttir --json",
    "report -o -",
]
NODE = re.compile(r'  n\d+_\d+ (?:\[label="(?:[^"\\\n]|\\.)*" fillcolor="#[0-9a-f]{6}"\]|-> n\d+_\d+);')


def everything(text: str) -> str:
    """Poison a text in all relevant ways at once."""
    return f"::error::{text[:1]}{UNSEEN}{text[1:]}{MARKUP}{COMMANDS}"


def commands(session: Session) -> list[list[str]]:
    """List the views, including views of single items of the session."""
    found = [view.split() for view in VIEWS]
    for graph in session.graphs[:1]:
        one = ["graphs", "--graph", graph.id]
        found += [[*one, "--ops"], [*one, "--dot"], [*one, "--svg"], [*one, "--stage", "dynamo"]]
        found += [[*one, "--stage", "dynamo", "--json"], ["graphs", "--line", f"{graph.file}:{graph.line}"]]
        found += [["bytecode", "--function", graph.function], ["shapes", "--function", graph.function]]
        found += [[*one, "--stage", "nothing"], ["guards", "--graph", f"{graph.id}0"]]
    for kernel in session.kernels[:1]:
        found += [["kernels", "--kernel", kernel.name], ["kernels", "--source", "--kernel", kernel.name]]
        found += [["kernels", "--kernel", f"no{kernel.name}"]]
    return found


def check(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_request, "saved", lambda _target, _store, _rank=None: session)
    for words in commands(session):
        ran = ctrace(*words)
        assert ran.code in (0, 2), (words, ran.err[-3000:])
        assert obeyed(ran.out) == obeyed(ran.err) == [], words
        if ran.code == 0:
            check_format(words, ran)


def check_format(words: list[str], ran: Ran) -> None:
    if "--json" in words:
        json.loads(ran.out, parse_constant=pytest.fail)
    if "--svg" in words:
        ElementTree.fromstring(ran.out)
    if "--markdown" in words:
        # As a renderer reads it: in a span of code nothing is escaped, and an escaped backtick begins none.
        blocks = MarkdownIt("commonmark").enable("table").parse(ran.out)
        tokens = [token for block in blocks for token in (block, *(block.children or ()))]
        found = {token.content for token in tokens if token.type.startswith("html_")}
        assert found <= {"<sub>", "</sub>", "<code>", "</code>"}
    if "--dot" in words:
        wrong = [line for line in ran.out.splitlines()[3:-1] if not NODE.fullmatch(line)]
        assert not [line for line in wrong if not line.startswith("  subgraph ") and line != "  }"]


@pytest.mark.parametrize("name", MADE)
def test_handmade_sessions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(poisoned(MADE[name], everything), monkeypatch)


@pytest.mark.parametrize("log", ["fused", "several_causes"])
def test_recorded_sessions(log: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(poisoned(load_log(DATA / f"{log}.log"), everything), monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("how", poisons())
@pytest.mark.parametrize("log", sorted(DATA.glob("*.log")), ids=lambda log: log.stem)
def test_all_recorded_sessions(log: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(poisoned(load_log(log), poisons()[how]), monkeypatch)


def test_json_reads_back_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    session = poisoned(load_log(DATA / "fused.log"), everything)
    monkeypatch.setattr(run_request, "saved", lambda _target, _store, _rank=None: session)
    read = json.loads(ctrace("explain", "--json").out)
    assert [each["function"] for each in read["graphs"]] == [each.function for each in session.graphs]
    assert [each["file"] for each in read["graphs"]] == [each.file for each in session.graphs]
    assert {each["language"] for each in read["kernels"]} == {each.language for each in session.kernels}


def test_ordinary_letters_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    session = poisoned(sessions.PARTIAL, lambda text: f"{text}é漢🙂")
    monkeypatch.setattr(run_request, "saved", lambda _target, _store, _rank=None: session)
    for words in (["explain"], ["explain", "--json"], ["explain", "--markdown"]):
        assert "é漢🙂" in ctrace(*words).out
