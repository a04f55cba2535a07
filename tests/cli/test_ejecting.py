"""`ctrace kernels eject`: which kernels it chooses, and what it says about those that it refuses."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from ctrace.cli import package_runs
from ctrace.cli.main import joined
from ctrace.cli.package_runs import EjectRequest, ejected
from ctrace.cli.run_request import Request
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.session import Session
from tests.support.ejecting import NAME, session


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    found = [session()]
    monkeypatch.setattr(package_runs, "session_of", lambda _request: (found[0], False))
    return found


def request(
    folder: Path | None, *names: str, line: str | None = None, everything: bool = False, as_json: bool = False
) -> EjectRequest:
    return EjectRequest(names, folder, line, all_of_it=everything, json=as_json)


@pytest.mark.parametrize("name", [NAME, "triton_poi_fused_exp", "exp_mul"])
def test_a_part_of_the_name_is_enough(
    run: list[Session], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert ejected(Request(), request(tmp_path, name)) == 0
    assert (tmp_path / "exp_mul_0" / "kernel.py").is_file()
    assert capsys.readouterr().out.startswith("1 of 1 kernel ejected")


def test_json_has_packages_and_refusals(run: list[Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run[0] = session(workspaces=1)
    assert ejected(Request(), request(tmp_path, everything=True, as_json=True)) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["package"] is None
    assert "scratch memory" in kernel["refused"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "what", "todo"),
    [
        (("emp_mul",), "no kernel name contains that", "did you mean"),
        ((), "name a kernel", "--all"),
    ],
)
def test_bad_names(run: list[Session], tmp_path: Path, asked: tuple[str, ...], what: str, todo: str) -> None:
    with pytest.raises(TargetError, match=what) as refused:
        ejected(Request(), request(tmp_path, *asked))
    assert todo in refused.value.todo


def test_a_folder_is_needed(run: list[Session]) -> None:
    with pytest.raises(TargetError, match="-o DIR is missing"):
        ejected(Request(), request(None, "exp"))


def test_names_and_all_exclude_each_other(run: list[Session], tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="NAME and --all exclude each other"):
        ejected(Request(), request(tmp_path, "exp", everything=True))


def test_a_named_kernel_that_cannot_be_ejected_writes_nothing(run: list[Session], tmp_path: Path) -> None:
    run[0] = session(language="external")
    with pytest.raises(TargetError, match=r"cannot be ejected: .*library") as refused:
        ejected(Request(), request(tmp_path / "ops", NAME))
    assert refused.value.todo
    assert not (tmp_path / "ops").exists()


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["kernels", "eject", "gelu", "-o", "ops"], "kernels eject"),
        (["kernels", "eject.py"], "kernels"),
        (["kernels", "./eject"], "kernels"),
        (["kernels"], "kernels"),
        (["explain", "eject"], "explain"),
    ],
)
def test_kernels_still_takes_any_target(words: list[str], first: str) -> None:
    assert joined(words)[0] == first


def test_a_program_that_failed_is_no_success(
    run: list[Session], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said "0 of no kernels ejected", and exited with 0."""
    failure = Failure(FailurePhase.LOAD, "ImportError", "no module named nope")
    run[0] = structs.replace(session(), kernels=(), kernel_calls=(), failure=failure)
    monkeypatch.setattr(package_runs, "session_of", lambda _request: (run[0], True))
    for chosen in (request(tmp_path / "ops", "gelu"), request(tmp_path / "ops", everything=True)):
        assert ejected(Request(), chosen) == 3
        assert "No kernel ejected: the run has no generated kernel" in capsys.readouterr().out
    assert not (tmp_path / "ops").exists()
