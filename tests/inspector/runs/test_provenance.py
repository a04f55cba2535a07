"""Only runs that were captured here, of targets inside the project, may be rerun without naming them."""

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.rerun import refuse_foreign, request_of
from ctrace.inspector.runs.run_names import rename
from ctrace.inspector.runs.store import SavedRun, Store


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return folder


def made(path: str | None = "model.py", module: str | None = None) -> SavedRun:
    if path is not None and not Path(path).exists():
        Path(path).write_text("model = 1\n")
    run = Store().create(Target(path or module, "model"))
    request = CaptureRequest("model", path, module, None, (), Options(train=True), str(run.log))
    run.request.write_text(request.to_json())
    provenance.sign(run)
    return Store().finish(run, 1.0, None, {})


def refused(run: SavedRun) -> str:
    with pytest.raises(RunError) as caught:
        refuse_foreign(run, request_of(run), "--target h100")
    return f"{caught.value.what}\n{caught.value.todo}"


def test_a_run_of_this_folder_is_run_again(project: Path) -> None:
    run = made()
    refuse_foreign(run, request_of(run), "--target h100")
    (key,) = (project.parent / "state").rglob("key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert len(key.read_bytes()) == 32


def test_a_clone_is_not(project: Path) -> None:
    run = made()
    (run.folder / "made-here").unlink()
    assert refused(run) == (
        f"cannot rerun model.py of the last run, {run.name}: nothing proves that it was captured here\n"
        "to run it anyway, name it: ctrace kernels model.py --target h100 --train"
    )


@pytest.mark.parametrize("how", ["edited", "copied", "renamed by hand", "from another folder", "another key"])
def test_a_proof_is_of_one_run_in_one_place(how: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made()
    match how:
        case "edited":
            run.request.write_text(run.request.read_text().replace("true", "false"))
        case "copied":
            shutil.copytree(project, project.parent / "copy")
            monkeypatch.chdir(project.parent / "copy")
        case "renamed by hand":
            run.folder.rename(".ctrace/other")
            run = Store().load("other")
        case "from another folder":
            monkeypatch.setenv("CTRACE_DIR", str(project / ".ctrace"))
            (project.parent / "elsewhere").mkdir()
            monkeypatch.chdir(project.parent / "elsewhere")
            Path("model.py").write_text("model = 2\n")
            run = Store().load()
        case _:
            monkeypatch.setenv("XDG_STATE_HOME", str(project.parent / "other"))
            made()
    assert "it was captured elsewhere, or changed since" in refused(run)


def test_a_run_that_ctrace_renamed_keeps_its_proof(project: Path) -> None:
    run = made()
    moved = Store().load(rename(Store(), run.name, "before"))
    refuse_foreign(moved, request_of(moved), "--target h100")
    forged = made()
    (forged.folder / "made-here").write_text("0" * 64)
    assert "captured elsewhere" in refused(Store().load(rename(Store(), forged.name, "forged")))


def test_a_target_outside_of_the_project(project: Path) -> None:
    (project.parent / "evil.py").write_text("model = 1\n")
    (project / "link.py").symlink_to("../evil.py")
    for path in ("../evil.py", str(project.parent / "evil.py"), "link.py"):
        assert "evil.py is outside of the project" in refused(made(path))


def test_the_project_is_its_git_repository(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".git").mkdir()
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    run = made("../model.py")
    refuse_foreign(run, request_of(run), "--target h100")


def test_modules(project: Path) -> None:
    (project / "pkg").mkdir()
    (project / "pkg" / "__init__.py").write_text("raise SystemExit('it was imported')\n")
    (project / "pkg" / "net.py").write_text("")
    run = made(None, "pkg.net")
    refuse_foreign(run, request_of(run), "--target h100")
    assert "there is no module json" in refused(made(None, "json"))
    assert "there is no module pkg.net.deep" in refused(made(None, "pkg.net.deep"))


@pytest.mark.parametrize("how", ["inside", "writable folder", "writable key", "link", "nowhere", "damaged"])
def test_a_key_that_proves_nothing(how: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made()
    folder = project.parent / "state" / "ctrace"
    match how:
        case "inside":
            shutil.copytree(project.parent / "state", project / "state")
            monkeypatch.setenv("XDG_STATE_HOME", str(project / "state"))
        case "writable folder":
            folder.chmod(0o777)
        case "writable key":
            (folder / "key").chmod(0o620)
        case "link":
            (folder / "key").rename(folder / "real")
            (folder / "key").symlink_to("real")
        case "damaged":
            (folder / "key").write_bytes(b"")
        case _:
            monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    assert "name it: ctrace kernels model.py" in refused(run)


def test_without_a_key_a_run_is_saved_without_a_proof(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    run = made()
    assert not (run.folder / "made-here").exists()
    assert "cannot be used" in refused(run)


def test_what_an_order_says_reaches_no_terminal_raw(project: Path) -> None:
    run = made()
    request = replace(request_of(run), path="mo\x1b[2Jdel.py", args=("; rm -rf /",))
    (run.folder / "made-here").unlink()
    with pytest.raises(RunError) as caught:
        refuse_foreign(run, request, "--target h100")
    assert "\x1b" not in caught.value.what + caught.value.todo
    assert "-- '; rm -rf /'" in caught.value.todo
