"""`--target` on the command line, without torch: other options, saved runs for a GPU, repeated runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.cli.run_request import Request, gpu_names, session_of
from ctrace.cli.sidebyside import sessions_for
from ctrace.inspector.errors import SetupError, TargetError
from ctrace.inspector.facts.session import Session, Target
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.store import Store
from ctrace.inspector.runs.target import ModelTarget
from tests.cli.test_main import _ctrace
from tests.support.helpers import Log
from tests.support.targeted import EMITTED, H100

GPU = {"capability": [9, 0], "processors": 132, "registers": 65536, "threads": 2048, "shared": 233472, "warp": 32,
       "tf32": [], "sources": {}}  # fmt: skip


def made(folder: Path, name: str | None, **options: Any) -> str:
    """Save a run of model.py, emitted for a GPU or for none."""
    model = folder / "model.py"
    model.write_text("model = 1\ninputs = ()\n")
    run = Store(folder / ".ctrace").create(Target(str(model), "model"))
    gpu = None if name is None else gpu_named(name)
    request = CaptureRequest("model", str(model), None, None, (), Options(gpu=name, **options), str(run.log), gpu=gpu)
    run.request.write_text(request.to_json())
    provenance.sign(run)
    log = Log().started()
    if gpu is not None:
        log.ctrace("gpu", {**GPU, "name": gpu.title, "target": gpu.name})
    run.log.write_text(log.ended().text)
    summary = {"verdict": "not_compiled", "target_gpu": name}
    return str(Store(folder / ".ctrace").finish(run, 1.0, None, summary).name)


def test_without_triton_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("model = 1\ninputs = ()\n")
    without = "import sys; sys.modules['triton'] = None; "
    done = _ctrace("explain", "model.py", "--target", "h100", cwd=tmp_path, code=without)
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs Triton" in done.stderr
    assert "pip install triton" in done.stderr
    assert not (tmp_path / ".ctrace").exists()


@pytest.fixture
def captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Options]]:
    """Replace captures: record each request, and return a Session for it."""
    seen: list[tuple[Any, Options]] = []

    def capture(resolved: Any, options: Options, **_: object) -> Session:
        seen.append((resolved, options))
        if options.gpu == "t4":
            raise TargetError("t4 failed", "try again")
        gpu = replace(H100, target=str(options.gpu))
        return replace(EMITTED, gpu=gpu)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ctrace.inspector.runs.run_capture.capture", capture)
    return seen


def names(*gpus: str) -> dict[str, str]:
    return {name: name for name in gpus}


def request(target: str | None, gpu: str | None, **options: Any) -> Request:
    return Request(target, options={**options, "gpu": gpu})


@pytest.mark.parametrize(
    ("words", "what", "todo"),
    [
        (("kernels", "--target", "h10"), "--target h10: there is no such GPU", "did you mean h100?"),
        (("explain", "--target", "h100", "--build"), "--target and --build exclude each other", "remove one"),
        (
            ("explain", "--target", "h100", "--backend", "eager"),
            "--target and --backend eager exclude",
            "remove one: only Inductor",
        ),
        (("graphs", "--target", "a100,h100"), "--target a100,h100: this command takes one", "name one; ctrace kernels"),
        (("run", "--target", "a100,h100", "model.py"), "--target a100,h100: ctrace run takes one", "name one"),
        (("run", "--target", "h100", "--build", "model.py"), "--target and --build exclude each other", "remove one"),
        (("kernels", "--target", "a100,h100", "--source"), "--target a100,h100 and --source exclude", "with --source"),
        (("explain", "--target", "a100,h100", "--markdown"), "--target a100,h100 and --markdown", "with --markdown"),
        (("fusion", "--target", "a100,h100", "--nodes"), "--target a100,h100 and --nodes exclude", "with --nodes"),
        (("kernels", "model.py", "--target", "a100,,h100"), "--target names no GPU", "there are: "),
    ],
)
def test_invalid_combinations_are_refused(words: tuple[str, ...], what: str, todo: str, tmp_path: Path) -> None:
    made(tmp_path, None)
    done = _ctrace(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"ctrace: {what}")
    assert second.strip().startswith(todo)


def test_names_are_unique_and_keep_their_order() -> None:
    assert gpu_names(request(None, "H100, a100,h100")) == {"h100": "h100", "a100": "a100"}
    assert gpu_names(request(None, None)) == {}


def test_the_last_run_is_shown_if_it_was_for_that_gpu(tmp_path: Path) -> None:
    made(tmp_path, "h100")
    done = _ctrace("kernels", "--target", "h100", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "for h100" in done.stdout
    listed = _ctrace("runs", cwd=tmp_path)
    assert "for h100" in listed.stdout
    assert json.loads(_ctrace("runs", "--json", cwd=tmp_path).stdout)[0]["target_gpu"] == "h100"


def test_a_named_run_of_another_gpu(tmp_path: Path) -> None:
    name = made(tmp_path, "a100")
    for named in (name, f".ctrace/{name}", f".ctrace/{name}/trace.log"):
        done = _ctrace("kernels", named, "--target", "h100", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.splitlines()[0].endswith(f"{named} has no code for h100")
    assert _ctrace("kernels", name, "--target", "a100", cwd=tmp_path).returncode == 0
    several = _ctrace("kernels", name, "--target", "a100,h100", cwd=tmp_path)
    assert "is a saved run, which has code for one GPU only" in several.stderr


def test_the_last_run_is_repeated(tmp_path: Path, captures: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, None, train=True, build=True)
    _, is_new = session_of(request(None, "h100", mode="reduce-overhead"))
    assert is_new
    assert captures == [
        (ModelTarget(tmp_path / "model.py", None, None), Options(train=True, mode="reduce-overhead", gpu="h100"))
    ]
    assert "again for h100, with the options of the last run" in capsys.readouterr().err


def test_a_saved_run_with_another_backend_cannot_be_repeated(tmp_path: Path, captures: list[Any]) -> None:
    made(tmp_path, None, backend="eager")
    with pytest.raises(TargetError, match="--target and --backend eager"):
        session_of(request(None, "h100"))
    assert captures == []


def test_a_program_may_have_a_target(tmp_path: Path, captures: list[Any]) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.compile(print)\n")
    session_of(request("train.py", "h100"))
    assert captures[0][1] == Options(gpu="h100")
    with pytest.raises(TargetError, match="is a program"):
        session_of(request("train.py", "h100", train=True))


def test_several_are_captured_each_and_one_may_fail(tmp_path: Path, captures: list[Any]) -> None:
    made(tmp_path, None, train=True)
    found = sessions_for(request("model.py", "a100,t4,h100"), names("a100", "t4", "h100"))
    assert sorted(str(options.gpu) for _, options in captures) == ["a100", "h100", "t4"]
    assert (list(found.sessions), found.failed, found.is_new) == (["a100", "h100"], {"t4": "t4 failed"}, True)
    with pytest.raises(TargetError, match="t4 failed"):
        sessions_for(request("model.py", "t4"), names("t4"))


def test_the_last_runs_are_compared_if_they_have_one_target(tmp_path: Path, captures: list[Any]) -> None:
    made(tmp_path, "h100")
    made(tmp_path, "a100")
    found = sessions_for(request(None, "a100,h100"), names("a100", "h100"))
    assert (list(found.sessions), found.is_new, captures) == (["a100", "h100"], False, [])
    made(tmp_path, "h100", train=True)
    assert sessions_for(request(None, "a100,h100"), names("a100", "h100")).is_new
    assert {options.train for _, options in captures} == {True}


def test_nothing_to_compare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, captures: list[Any]) -> None:
    def missing(*_: object, **__: object) -> Session:
        raise SetupError("no torch", "install it")

    made(tmp_path, None)
    monkeypatch.setattr("ctrace.inspector.runs.run_capture.capture", missing)
    with pytest.raises(SetupError):
        sessions_for(request("model.py", "a100,h100"), names("a100", "h100"))
    assert captures == []
