"""The proof that `--apply` uses: only of the same files, asked the same way, written by this user's ctrace."""

import hashlib
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.diagnosis import Counts, Effect, RootCause, RootKind
from ctrace.inspector.facts.outcome import Asked
from ctrace.inspector.facts.session import Graph, Session
from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.features.fix.repairs.earlier_proof import EarlierProof
from ctrace.inspector.features.fix.repairs.repair_result import (
    Combined,
    CombinedStep,
    Fixes,
    ProofCheck,
    ProofOutcome,
    TriedRepair,
    base_of,
)
from ctrace.inspector.features.fix.repairs.trial_runs import Evidence
from ctrace.inspector.runs.answers import forget_answers
from ctrace.inspector.runs.capture_request import Options

AFTER = "model = 2\n"


class Project:
    """A model file, what was proved of it, and a run that read it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / ".ctrace"
        self.net = folder / "net.py"
        self.net.write_text("model = 1\n")
        self.data = folder / "weights.txt"
        self.data.write_text("1")
        self.made_of = {str(each): digest(each) for each in (self.net, self.data)}

    def earlier(self, options: Options | None = None, asked: object = ()) -> EarlierProof:
        return EarlierProof(self.root, "net.py", options or Options(), asked)

    def fixes(self, file: Path | None = None) -> Fixes:
        file = file or self.net
        outcome = ProofOutcome(
            (ProofCheck("outputs_equal", True),), Effect(Counts(2, 1, 0, 50.0), Counts(1, 0, 0, 100.0))
        )
        cause = RootCause("branch", RootKind.TENSOR_BRANCH, "A branch", str(file), 1, "forward", ())
        tried = TriedRepair("branch", ("branch",), "tensor_branch", "source", "Use where.", outcome)
        files = (NewText(str(file), AFTER),)
        combined = Combined((CombinedStep("tensor_branch", "Use where.", Counts(1, 0, 0)),), outcome, files, "patch")
        return Fixes(
            Session(graphs=(Graph("0/0", "forward", str(file), 1, 3),)),
            (cause,),
            repairs=(tried,),
            combined=combined,
            texts=(NewText(str(file), file.read_text()),),
        )

    def evidence(self, asked: Asked | None = None, observed: str = "{}") -> list[Evidence]:
        return [Evidence(Session(made_of=self.made_of, asked=asked or Asked()), observed, (self.root,))]

    def record(self) -> Path:
        (path,) = (self.root / ".proved").glob("*.json")
        return path


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def project(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


def test_the_same_command_finds_the_whole_result(project: Project):
    fixes = project.fixes()
    assert project.earlier().keep(fixes, project.evidence()) == ""
    found = project.earlier().find()
    assert found is not None
    assert found.proved_at is not None
    assert replace(found, proved_at=None) == fixes
    assert base_of(found) == {str(project.net): "model = 1\n"}


def test_what_the_target_read_must_be_the_same(project: Project):
    assert project.earlier().keep(project.fixes(), project.evidence()) == ""
    project.data.write_text("2")
    assert project.earlier().find() is None
    project.data.write_text("1")
    assert project.earlier().find() is not None
    project.net.write_text("model = 1  # changed\n")
    assert project.earlier().find() is None


def test_a_file_that_uses_a_changed_one_must_be_the_same(project: Project):
    user = project.net.with_name("use.py")
    user.write_text("import net\n")
    assert project.earlier().keep(project.fixes(), project.evidence()) == ""
    assert project.earlier().find() is not None
    user.write_text("import net\nnet.model = None\n")
    assert project.earlier().find() is None
    user.write_text("import net\n")
    project.net.with_name("another.py").write_text("from net import model\n")
    assert project.earlier().find() is None


def test_other_options_are_proved_again(project: Project):
    assert project.earlier().keep(project.fixes(), project.evidence()) == ""
    assert project.earlier(Options(train=True)).find() is None
    assert project.earlier(asked=["tensor_branch"]).find() is None


@pytest.mark.parametrize("name", ["ctrace", "torch"])
def test_another_version_is_proved_again(project: Project, monkeypatch: pytest.MonkeyPatch, name: str):
    assert project.earlier().keep(project.fixes(), project.evidence()) == ""
    where = "ctrace.inspector.runs.circumstances."
    if name == "ctrace":
        monkeypatch.setattr(f"{where}__version__", "9.9")
    else:
        monkeypatch.setattr(f"{where}_torch", lambda: ["elsewhere", "another"])
    assert project.earlier().find() is None


def test_a_variable_that_the_target_read_counts(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WIDTH", "8")
    forget_answers()
    assert project.earlier().keep(project.fixes(), project.evidence(Asked(variables=("WIDTH",)))) == ""
    assert project.earlier().find() is not None
    monkeypatch.setenv("WIDTH", "16")
    assert project.earlier().find() is None


def test_a_record_that_somebody_edits_writes_nothing(project: Project):
    assert project.earlier().keep(project.fixes(), project.evidence()) == ""
    record = project.record()
    signed = json.loads(record.read_text())
    for text in (
        signed["text"].replace("model = 2", "evil = 2"),
        signed["text"].replace(str(project.net), str(project.data)),
        signed["text"].replace(digest(project.net), digest(project.data)),
    ):
        assert text != signed["text"]
        record.write_text(json.dumps({**signed, "text": text}))
        assert project.earlier().find() is None
    record.write_text(json.dumps({**signed, "proof": "0" * 64}))
    assert project.earlier().find() is None
    record.write_text("[")
    assert project.earlier().find() is None


def test_the_record_of_another_command_or_folder_does_not_stand_in(project: Project):
    assert project.earlier(asked=["one"]).keep(project.fixes(), project.evidence()) == ""
    text = project.record().read_text()
    assert project.earlier().keep(project.fixes(), project.evidence()) == ""
    for record in (project.root / ".proved").glob("*.json"):
        record.write_text(text)
    assert project.earlier().find() is None
    assert project.earlier(asked=["one"]).find() is not None


def test_only_files_of_the_target_are_written(project: Project, tmp_path: Path):
    other = tmp_path / "other.py"
    other.write_text("x = 1\n")
    why = project.earlier().keep(project.fixes(other), project.evidence())
    assert why == "what it depends on changed meanwhile"
    assert not list((project.root / ".proved").glob("*.json"))


@pytest.mark.parametrize(
    ("asked", "observed", "why"),
    [
        (Asked(), "", "cannot see here"),
        (Asked(deeds={"opens a socket": ("net.py", 3)}), "{}", "net.py:3 opens a socket"),
        (Asked(), '{"connected": ["10.0.0.1:80"]}', "it connects to 10.0.0.1:80"),
    ],
)
def test_what_nobody_can_ask_again_is_proved_again(project: Project, asked: Asked, observed: str, why: str):
    assert why in project.earlier().keep(project.fixes(), project.evidence(asked, observed))
    assert project.earlier().find() is None


def test_a_later_search_that_proves_nothing_removes_the_proof(project: Project):
    assert project.earlier().keep(project.fixes(), project.evidence()) == ""
    assert project.earlier().keep(replace(project.fixes(), combined=None), project.evidence()) == ""
    assert project.earlier().find() is None
