"""`ctrace upgrade` without any run: what it refuses, and how its answer is shown."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from ctrace.cli import upgrading
from ctrace.cli.streams import EndedBySignal
from ctrace.cli.upgrading import Model, UpgradeRequest, _judged, plan_lines
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.features.upgrade import environment_runs
from ctrace.inspector.features.upgrade.environment_runs import EnvironmentRuns
from ctrace.inspector.features.upgrade.environments import Fetched, UpgradePlan
from ctrace.inspector.features.upgrade.upgrade_model import (
    EnvironmentFacts,
    Reason,
    ReasonKind,
    UpgradeChange,
    UpgradedModel,
    UpgradeDocument,
    UpgradeError,
    UpgradeNumber,
    UpgradeSide,
    equal_of,
)
from ctrace.inspector.features.upgrade.upgrade_search import BothEnvironments
from ctrace.inspector.processes.boot import Interpreter
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import resolve
from ctrace.reports.json.printer import render
from ctrace.reports.terminal.upgrade_screen import upgrade_screen
from ctrace.reports.upgrade_reports import render_upgrade_markdown, render_upgrade_sarif
from ctrace.reports.wording.upgrade_wording import change_text, reason_text
from tests.support.golden import drawn
from tests.support.inprocess import ctrace
from tests.support.places import DATA, ROOT

CONFIG = Reason(
    ReasonKind.CONFIG,
    "torch._dynamo.config.recompile_limit",
    "8",
    "1",
    "torch/_dynamo/config.py:121",
    "put back alone, the change is gone",
    "torch._dynamo.config.recompile_limit = 8 keeps the old behavior",
)
MODELS = (
    UpgradedModel("models/mlp.py", numbers=(UpgradeNumber("graphs", "1", "1"),)),
    UpgradedModel(
        "models/net.py:Net",
        (
            UpgradeChange("verdict", "changed", "run", "compiled", "partial", reason=CONFIG, worse=True),
            UpgradeChange("guard", "added", "models/net.py:3 f", now="x is <b>y</b>", reason=Reason(note="it stays")),
        ),
        numbers=(UpgradeNumber("graphs", "3", "1"), UpgradeNumber("compile time", "3.0 s", "9.0 s")),
    ),
    UpgradedModel(
        "models/other.py", error=UpgradeError("after", "load", "ModuleNotFoundError: No module named 'einops'")
    ),
)


@pytest.fixture(autouse=True)
def _no_path_of_the_caller(monkeypatch: pytest.MonkeyPatch):
    """`upgrade` notes each path of the caller that it does not hand on."""
    monkeypatch.delenv("PYTHONPATH", raising=False)


def document(*models: UpgradedModel) -> UpgradeDocument:
    before, after = (
        UpgradeSide("3.11.7", torch, {"torch": torch, "einops": "0.8.0"}, "/env") for torch in ("2.13.0", "2.15.0")
    )
    return UpgradeDocument(before, after, models, equal_of(models))


@pytest.mark.parametrize(
    ("words", "what", "todo"),
    [
        ([], "nothing to compare today's environment with", "ctrace upgrade torch==2.15.0"),
        (["torch=2.15.0"], "neither a requirement nor a model", "write torch==2.15.0"),
        (["torch"], "torch names no version", "torch==VERSION"),
        (["torch=="], "torch== is no requirement", "torch==2.15.0"),
        (["torch==2.15.0", "--python", "x"], "--python names an environment", "choose one"),
        (["--python", "a", "--python", "b", "--python", "c"], "more than twice", "one or two"),
        (["torch==2.15.0", "none.py"], "none.py", ""),
        (["torch==2.15.0", "--fail-on", "bad"], "there is no such condition", "worse or any"),
        (["torch==2.15.0", "--allow", "kernl"], "--allow kernl: there is no such kind", "did you mean kernel?"),
        (["--clean", "torch==2.15.0"], "--clean removes all environments", "ctrace upgrade --clean"),
    ],
)
def test_a_wrong_command_line_is_refused_in_two_lines(
    words: list[str], what: str, todo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    ran = ctrace("upgrade", *words)
    assert ran.code == 2
    first, second = ran.err.strip().splitlines()
    assert what in first
    assert todo in second


def test_without_a_terminal_nothing_is_asked_and_nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("model = abs\ninputs = (1,)\n")
    ran = ctrace("upgrade", "torch==2.15.0", "model.py")
    assert ran.code == 2
    assert ran.err.splitlines()[-1].strip() == "ctrace upgrade torch==2.15.0 model.py --yes"
    assert not (tmp_path / ".ctrace").exists()


def test_clean_lists_what_it_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CTRACE_DIR", str(tmp_path / ".ctrace"))
    assert "no environment" in ctrace("upgrade", "--clean").out
    folder = tmp_path / ".ctrace" / "environments" / "torch-2.15.0-abc"
    folder.mkdir(parents=True)
    (folder / "environment.json").write_text('{"requirements": ["torch==2.15.0"], "created": 1.0}')
    found = json.loads(ctrace("upgrade", "--clean", "--json").out)
    assert [(each["name"], each["requirements"]) for each in found["removed"]] == [
        ("torch-2.15.0-abc", ["torch==2.15.0"])
    ]
    assert not folder.exists()


def test_what_is_fetched_is_said_before_the_question(tmp_path: Path):
    packages = (Fetched("torch", "2.15.0", "https://example.org/torch.whl", 2 << 30), Fetched("triton", "3.9.0"))
    lines = plan_lines(UpgradePlan(tmp_path / "env", packages[:1], ("torch==2.15.0",)))
    assert lines[0] == "ctrace: fetches 1 package (2.0 GiB): torch 2.15.0"
    assert lines[1] == f"  from example.org, into {tmp_path / 'env'}"
    assert "sizes not known" in plan_lines(UpgradePlan(tmp_path, packages, ()))[0]


def test_the_screen_has_the_answer_then_each_reason():
    text = drawn(upgrade_screen(document(*MODELS), 140, all_of_it=False), 140)
    assert text.startswith("WORSE  torch 2.13.0 → 2.15.0")
    assert "1 of 3 models changed: 1 verdict, 1 guard; 1 for the worse; 1 model could not be compared" in text
    assert "config torch._dynamo.config.recompile_limit: 8 → 1 (torch/_dynamo/config.py:121)" in text
    assert "→ torch._dynamo.config.recompile_limit = 8 keeps the old behavior" in text
    assert "reason not found: it stays" in text
    assert "after, load: ModuleNotFoundError: No module named 'einops'" in text
    assert "compile time" not in text


@pytest.mark.parametrize(
    ("models", "equal", "word"), [(MODELS[:1], True, "EQUAL"), (MODELS[:2], False, "WORSE"), (MODELS, None, "WORSE")]
)
def test_equal_is_null_if_a_model_could_not_be_compared(
    models: tuple[UpgradedModel, ...], equal: bool | None, word: str
):
    found = document(*models)
    assert found.equal is equal
    assert drawn(upgrade_screen(found, 100, all_of_it=False), 100).startswith(word)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_columns_that_do_not_fit_are_left_out_and_names_are_whole(width: int):
    numbers = {"verdict": "compiled", "graphs": "1", "breaks": "0", "skipped": "0", "guards": "101", "kernels": "6"}
    made = [UpgradeNumber(name, value, value) for name, value in numbers.items()]
    moved = UpgradeNumber("bytes moved", "46,620", "42,524")
    found = document(UpgradedModel("sample_models/item_sync.py", numbers=(*made, moved)))
    text = drawn(upgrade_screen(found, width, all_of_it=False), width)
    assert "sample_models/item_sync.py  equal   compiled       1" in text
    assert "46,620 → 42,524" in text
    assert "…" not in text
    assert ("kernels" in text, "recompilations" in text) == (width == 140, width == 140)


def test_what_torch_itself_changed_is_said_without_a_place():
    reason = Reason(ReasonKind.TORCH, "torch", "2.13.0", "2.15.0")
    assert reason_text(reason) == "torch itself: 2.13.0 → 2.15.0; the place in its source was not found"
    new = Reason(ReasonKind.CONFIG, "torch._inductor.config.new", None, "True", "torch/_inductor/config.py:3")
    assert reason_text(new) == "config torch._inductor.config.new: not there → True (torch/_inductor/config.py:3)"


def test_json_follows_its_schema_with_the_fixed_names():
    data = json.loads(render(document(*MODELS)))
    schema = json.loads((ROOT / "reports" / "schemas" / "upgrade.json").read_text())
    jsonschema.validate(data, schema)
    assert {"before", "after", "models", "equal"} <= set(data)
    assert {"python", "torch", "packages"} <= set(data["before"])
    change = data["models"][1]["changes"][0]
    assert {"what", "change", "where", "was", "now", "detail", "follows", "reason", "worse"} == set(change)
    assert {"kind", "name", "before", "after", "source"} <= set(change["reason"])
    assert data["models"][2]["error"] == {
        "environment": "after",
        "phase": "load",
        "message": "ModuleNotFoundError: No module named 'einops'",
    }


def test_markdown_escapes_what_it_shows():
    text = render_upgrade_markdown(document(*MODELS))
    assert "### ctrace upgrade: " in text
    assert "| `models/net.py:Net` | 1 | 0 | 1 | graphs 3 → 1 |" in text
    assert "<b>" not in text.replace("`guard added: models/net.py:3 f: x is <b>y</b>`", "")


def test_sarif_has_each_change_at_its_line():
    data = json.loads(render_upgrade_sarif(document(*MODELS)))
    jsonschema.validate(data, json.loads((DATA / "sarif.json").read_text()))
    results = data["runs"][0]["results"]
    assert [(each["ruleId"], each["level"]) for each in results] == [
        ("upgrade-verdict", "warning"),
        ("upgrade-guard", "note"),
        ("upgrade-error", "error"),
    ]
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "models/net.py"
    assert results[1]["locations"][0]["physicalLocation"]["region"] == {"startLine": 3}


@pytest.mark.parametrize(
    ("fail_on", "allow", "failed"),
    [
        (None, (), ()),
        ("worse", (), ("error", "verdict")),
        ("worse", ("verdict",), ("error",)),
        ("worse", ("config",), ("error",)),
        ("any", (), ("error", "guard", "verdict")),
        ("any", ("config", "guard"), ("error",)),
    ],
)
def test_fail_on_worse_leaves_allowed_kinds_out(fail_on: str | None, allow: tuple[str, ...], failed: tuple[str, ...]):
    assert _judged(document(*MODELS), UpgradeRequest(fail_on=fail_on, allow=allow)).failed_on == failed


def test_long_texts_show_where_they_differ():
    state = "___check_global_state() against " + ", ".join(f'"field{number}": 0' for number in range(20))
    change = UpgradeChange("guard", "changed", "net.py:3 f", state, f'{state}, "cuda_matmul_precision": 0')
    assert change_text(change).endswith('→ …0, "field19": 0, "cuda_matmul_precision": 0')
    assert len(change_text(change)) < 200


@pytest.fixture
def three_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[str]]:
    """Make `ctrace upgrade` compare three models without a run; what is given happens in place of the third."""

    def prepared(at_the_third: Callable[[], object]) -> list[str]:
        def compared(model: Model, _both: object) -> UpgradedModel:
            if model.name == "three.py":
                at_the_third()
            return UpgradedModel(model.name)

        facts = EnvironmentFacts("3.11.7", ".so", "2.15.0", "/torch", {"torch": "2.15.0"}, {}, {}, {}, {}, {})
        python = Interpreter("python")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(upgrading, "_environments", lambda *_words: (python, python))
        monkeypatch.setattr(upgrading, "_facts", lambda _side: facts)
        monkeypatch.setattr(upgrading, "_compared", compared)
        names = ["one.py", "two.py", "three.py"]
        for name in names:
            (tmp_path / name).write_text("model = abs\ninputs = (1,)\n")
        return ["upgrade", "--python", "a", "--python", "b", *names]

    return prepared


def _ended(error: BaseException) -> Callable[[], object]:
    def end() -> None:
        raise error

    return end


def _compared(text: str) -> tuple[object, list[object], list[str]]:
    """Return what an answer says in JSON: equal, the phase of each model's error, notes."""
    found = json.loads(text)
    return found["equal"], [each["error"] and each["error"]["phase"] for each in found["models"]], found["notes"]


UNFINISHED = (None, [None, None, "interrupt"], ["not finished: 2 of 3 models were compared"])


def test_what_was_compared_is_in_the_file_before_the_call_ends(three_models, tmp_path: Path):
    """So that a call that is killed leaves it."""
    kept: list[str] = []
    words = three_models(lambda: kept.append(Path("answer.json").read_text()))
    ran = ctrace(*words, "--json", "-o", "answer.json")
    assert _compared(kept[0]) == UNFINISHED
    schema = json.loads((ROOT / "reports" / "schemas" / "upgrade.json").read_text())
    jsonschema.validate(json.loads(kept[0]), schema)
    assert (ran.code, ran.err.count("Wrote")) == (0, 1)
    assert _compared(Path("answer.json").read_text()) == (True, [None, None, None], [])


def test_variables_of_this_environment_that_are_not_handed_on_are_named(three_models, monkeypatch: pytest.MonkeyPatch):
    words = three_models(lambda: None)
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    assert _compared(ctrace(*words, "--json").out)[2] == ["PYTHONPATH is set here, and was not handed on"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), EndedBySignal(signal.SIGINT), EndedBySignal(signal.SIGTERM)])
def test_an_interrupted_call_answers_with_what_was_compared(three_models, error: BaseException):
    words = three_models(_ended(error))
    ran = ctrace(*words, "--json")
    assert ran.code == 128 + (signal.SIGTERM if getattr(error, "name", "") == "SIGTERM" else signal.SIGINT)
    assert _compared(ran.out) == UNFINISHED
    screen = ctrace(*words).out
    assert "not finished: 2 of 3 models were compared" in " ".join(screen.split())
    assert "ctrace ended before this model was compared" in screen
    ctrace(*words, "--json", "-o", "answer.json")
    assert _compared(Path("answer.json").read_text()) == UNFINISHED


def test_a_call_that_ends_while_reasons_are_looked_for_leaves_the_changes(
    three_models, monkeypatch: pytest.MonkeyPatch
):
    words = three_models(lambda: None)

    def compared(model: Model, both: BothEnvironments) -> UpgradedModel:
        if model.name == "two.py":
            both.keep(UpgradedModel("two.py", MODELS[1].changes))
            raise KeyboardInterrupt
        return UpgradedModel(model.name)

    monkeypatch.setattr(upgrading, "_compared", compared)
    ran = ctrace(*words, "--json", "-o", "answer.json")
    assert ran.code == 130
    equal, phases, notes = _compared(Path("answer.json").read_text())
    assert (equal, phases) == (None, [None, None, "interrupt"])
    assert notes == [
        "not finished: 1 of 3 models were compared",
        "two.py: changed, but not all reasons were looked for",
    ]
    assert len(json.loads(Path("answer.json").read_text())["models"][1]["changes"]) == 2


def test_a_file_that_cannot_be_written_in_between_does_not_end_the_comparison(
    three_models, monkeypatch: pytest.MonkeyPatch
):
    from ctrace.inspector.files import writing

    write, failures = writing.write_output, [OSError(28, "No space left on device")]

    def full_once(path: Path, text: str) -> None:
        if failures:
            raise failures.pop()
        write(path, text)

    monkeypatch.setattr(writing, "write_output", full_once)
    ran = ctrace(*three_models(lambda: None), "--json", "-o", "answer.json")
    assert ran.code == 0
    assert "answer.json cannot be written" in ran.err
    assert _compared(Path("answer.json").read_text())[0] is True


def test_a_run_that_ctrl_c_ended_is_no_error_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run keeps Ctrl-C to itself, and the next model would have been compared."""
    failure = Failure(FailurePhase.INTERRUPT, "KeyboardInterrupt", "interrupted")
    monkeypatch.setattr(environment_runs, "capture", lambda *_args, **_words: SimpleNamespace(failure=failure))
    (tmp_path / "model.py").write_text("model = abs\ninputs = (1,)\n")
    runs = EnvironmentRuns("before", Interpreter("python"), Store(tmp_path / "runs"))
    with pytest.raises(KeyboardInterrupt):
        runs.captured(resolve(str(tmp_path / "model.py")), Options())
