"""Options that narrow a view refuse unknown values, before the capture if possible."""

import pytest

from ctrace.cli import run_request
from ctrace.inspector.facts.session import Session
from ctrace.inspector.runs.load import load_log
from tests.support import guarded, sessions
from tests.support.inprocess import ctrace
from tests.support.places import DATA

EARLY = (
    "guards --graph nope", "guards --line nope", "bytecode --graph nope",
    "graphs --graph nope", "graphs --stage nope", "graphs --line nope", "graphs --diff nope..forward",
    "graphs --diff forward..nope", "fusion --graph nope", "fusion --stage nope", "kernels --graph nope",
    "kernels --stage nope", "kernels --line nope", "kernels --ir nope", "breaks --owner nope",
    "breaks --explain nope", "recompiles --explain nope",
)  # fmt: skip
LATE = (
    "guards --graph 7/7", "guards --name nope", "guards --kind nope", "guards --line nope.py:1", "guards --line 4242",
    "bytecode --function nope", "bytecode --graph 7/7", "bytecode --line 4242", "graphs --graph 7/7",
    "graphs --stage joint", "graphs --line 4242", "fusion --graph 7/7", "fusion --stage backward",
    "kernels --graph 7/7", "kernels --stage backward", "kernels --kernel nope", "kernels --line nope.py:1",
    "kernels --ir ptx", "kernels --source --kernel nope", "kernels --wrapper --graph 7/7", "shapes --function nope",
    "shapes --function nope --json", "guards --name nope --json", "guards --name nope --all",
)  # fmt: skip


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    _show(monkeypatch, load_log(DATA / "fused.log"))


def _show(monkeypatch: pytest.MonkeyPatch, session: Session) -> None:
    monkeypatch.setattr(run_request, "saved", lambda _target, _store, _rank=None: session)


def _refused(line: str) -> str:
    ran = ctrace(*line.split())
    assert ran.code == 2, ran.err
    what, todo = ran.err.splitlines()
    assert "nope" in what or "4242" in what or "7/7" in what or line.split()[-1] in what
    assert todo.startswith("  ")
    assert not ran.out
    return todo


@pytest.mark.parametrize("line", EARLY)
def test_impossible_values_are_refused_before_a_run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_request, "saved", lambda _target, _store, _rank=None: pytest.fail("looked for a run"))
    _refused(line)


@pytest.mark.parametrize("line", [*EARLY, *LATE])
def test_a_value_that_the_run_does_not_have_is_refused(line: str, shown: None) -> None:
    _refused(line)


@pytest.mark.parametrize(
    "line", ["guards --name x", "bytecode --function f", "shapes --function f", "graphs --graph 0/0"]
)
def test_a_run_without_anything_refuses_too(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _show(monkeypatch, sessions.NOTHING)
    assert ctrace(*line.split()).code == 2


def test_a_typo_gets_a_suggestion(shown: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "did you mean inference?" in _refused("fusion --stage inferense-nope".replace("-nope", ""))
    _show(monkeypatch, guarded.GUARDED)
    ran = ctrace("guards", "--kind", "tensor_mach")
    assert (ran.code, "did you mean TENSOR_MATCH?" in ran.err) == (2, True)


def test_guards_shows_the_compilation_with_the_selected_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    _show(monkeypatch, guarded.GUARDED)
    assert ctrace("guards", "--kind", "tensor").code == 0


@pytest.mark.parametrize(
    "line", ["graphs --stage forward_2", "graphs --stage post_grad_backward", "graphs --stage post-grad"]
)
def test_stages_that_some_runs_have_are_not_refused_early(line: str, shown: None) -> None:
    assert "there is no such stage" not in ctrace(*line.split()).err
