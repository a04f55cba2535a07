"""Applied repairs: all files or none, and a way back."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from ctrace.inspector.errors import RunError, TargetError
from ctrace.inspector.facts.trial import NewText
from ctrace.inspector.features.fix.repairs import applying
from ctrace.inspector.features.fix.repairs.applying import apply, refuse_dirty, undo


@pytest.fixture(autouse=True)
def own_key(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a key of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


def files_in(folder: Path, **texts: str) -> dict[str, str]:
    found = {}
    for name, text in texts.items():
        path = folder / f"{name}.py"
        path.write_text(text)
        found[str(path)] = text
    return found


def changed(base: dict[str, str]) -> list[NewText]:
    return [NewText(file, f"{text}# changed\n") for file, text in base.items()]


def texts(base: dict[str, str]) -> list[str]:
    return [Path(file).read_text() for file in base]


def test_apply_and_undo(tmp_path: Path):
    base = files_in(tmp_path, one="a = 1\n", two="b = 2\n")
    Path(next(iter(base))).chmod(0o755)
    patch = apply(tmp_path / ".ctrace", ["x"], base, changed(base), str(tmp_path))
    assert texts(base) == ["a = 1\n# changed\n", "b = 2\n# changed\n"]
    assert "-# changed" in patch.read_text()
    assert Path(next(iter(base))).stat().st_mode & 0o777 == 0o755
    assert undo(tmp_path / ".ctrace").names == ("x",)
    assert texts(base) == ["a = 1\n", "b = 2\n"]
    with pytest.raises(RunError, match="no applied repair"):
        undo(tmp_path / ".ctrace")


def test_undo_goes_back_step_by_step(tmp_path: Path):
    root = tmp_path / ".ctrace"
    base = files_in(tmp_path, one="a = 1\n")
    apply(root, ["x"], base, changed(base), str(tmp_path))
    later = {file: Path(file).read_text() for file in base}
    apply(root, ["y"], later, changed(later), str(tmp_path))
    assert undo(root).names == ("y",)
    assert undo(root).names == ("x",)
    assert texts(base) == ["a = 1\n"]


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path):
    base = files_in(tmp_path, one="a = 1\n")
    Path(next(iter(base))).write_text("a = 3\n")
    with pytest.raises(RunError, match="has changed since the repair was proved"):
        apply(tmp_path / ".ctrace", ["x"], base, changed(base), str(tmp_path))
    assert texts(base) == ["a = 3\n"]


def test_undo_leaves_later_work_alone(tmp_path: Path):
    base = files_in(tmp_path, one="a = 1\n")
    apply(tmp_path / ".ctrace", ["x"], base, changed(base), str(tmp_path))
    Path(next(iter(base))).write_text("a = 3\n")
    with pytest.raises(RunError, match="changed since the repair was applied"):
        undo(tmp_path / ".ctrace")
    assert texts(base) == ["a = 3\n"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_an_error_between_two_files_leaves_both_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
):
    base = files_in(tmp_path, one="a = 1\n", two="b = 2\n")
    write = applying._write
    calls = []

    def failing(path: Path, text: str) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise error
        write(path, text)

    monkeypatch.setattr(applying, "_write", failing)
    with pytest.raises((KeyboardInterrupt, RunError)):
        apply(tmp_path / ".ctrace", ["x"], base, changed(base), str(tmp_path))
    assert texts(base) == ["a = 1\n", "b = 2\n"]


@pytest.mark.skipif(os.name != "posix", reason="there are no such signals")
def test_ctrl_c_twice_between_two_files_leaves_both_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    base = files_in(tmp_path, one="a = 1\n", two="b = 2\n")
    root = tmp_path / ".ctrace"
    write = applying._write

    def interrupted(path: Path, text: str) -> None:
        write(path, text)
        if len(texts(base)) == 2 and path.name == "two.py":
            signal.raise_signal(signal.SIGINT)
        if path.name == "one.py" and text == base[str(path)]:
            signal.raise_signal(signal.SIGINT)  # while the files are restored

    monkeypatch.setattr(applying, "_write", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run under nohup
    try:
        with pytest.raises(KeyboardInterrupt):
            apply(root, ["x"], base, changed(base), str(tmp_path))
    finally:
        signal.signal(signal.SIGINT, before)
    assert texts(base) == ["a = 1\n", "b = 2\n"]
    with pytest.raises(RunError, match="no applied repair to undo"):
        undo(root)


def test_a_record_from_somewhere_else_is_refused(tmp_path: Path):
    root = tmp_path / ".ctrace"
    base = files_in(tmp_path, one="a = 1\n", two="b = 2\n")
    one, two = base
    apply(root, ["x"], {one: base[one]}, [NewText(one, "a = 9\n")], str(tmp_path))
    (record,) = (root / "fixes").glob("*.json")
    record.write_text(record.read_text().replace(os.path.realpath(one), os.path.realpath(two)))
    Path(two).write_text("a = 9\n")
    with pytest.raises(RunError, match="nothing proves"):
        undo(root)
    assert texts(base) == ["a = 9\n", "a = 9\n"]


def test_a_file_that_cannot_be_restored_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    base = files_in(tmp_path, one="a = 1\n", two="b = 2\n")
    write = applying._write
    calls = []

    def failing(path: Path, text: str) -> None:
        calls.append(path)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        write(path, text)

    monkeypatch.setattr(applying, "_write", failing)
    with pytest.raises(RunError, match=r"two.py cannot be written.*could not be restored: .*one.py"):
        apply(tmp_path / ".ctrace", ["x"], base, changed(base), str(tmp_path))
    assert texts(base) == ["a = 1\n# changed\n", "b = 2\n"]


def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    base = files_in(tmp_path, one="a = 1\n")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(RunError, match="all files are as before"):
        apply(tmp_path / ".ctrace", ["x"], base, changed(base), str(tmp_path))
    assert texts(base) == ["a = 1\n"]


def test_a_dirty_file_is_refused(tmp_path: Path):
    base = files_in(tmp_path, one="a = 1\n")
    file = next(iter(base))
    refuse_dirty([file])  # no git here
    for command in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    with pytest.raises(TargetError, match="is not in git yet"):
        refuse_dirty([file])
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "commit", "-qm", "x"], cwd=tmp_path, check=True)
    refuse_dirty([file])
    Path(file).write_text("a = 2\n")
    with pytest.raises(TargetError, match="uncommitted changes"):
        refuse_dirty([file])


def killed_after(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let a process die by SIGKILL when it has written some files; nothing of it runs after that."""
    write = applying._write
    calls: list[Path] = []

    def dying(path: Path, text: str) -> None:
        if len(calls) == number:
            path.with_name(f".{path.name}.ctrace-0123").write_text("half of the new te")
            os.kill(os.getpid(), signal.SIGKILL)
        calls.append(path)
        write(path, text)

    monkeypatch.setattr(applying, "_write", dying)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_process_killed_in_the_middle_leaves_what_undo_takes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    base = files_in(tmp_path, one="a = 1\n", two="b = 2\n", three="c = 3\n")
    root = tmp_path / ".ctrace"
    child = os.fork()
    if child == 0:
        killed_after(monkeypatch, number)
        apply(root, ["x"], base, changed(base), str(tmp_path))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert sum(text.endswith("# changed\n") for text in texts(base)) == number
    with pytest.raises(RunError, match="killed in the middle"):
        apply(root, ["x"], base, changed(base), str(tmp_path))
    undo(root)
    assert texts(base) == list(base.values())
    assert sorted(each.name for each in tmp_path.iterdir()) == [".ctrace", "one.py", "three.py", "two.py"]
    apply(root, ["x"], base, changed(base), str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "link"), reason="there are no hard links")
def test_a_hard_link_stays_one_file(tmp_path: Path):
    base = files_in(tmp_path, one="a = 1\n" * 9)
    (file,) = base
    other = tmp_path / "other.py"
    os.link(file, other)
    apply(tmp_path / ".ctrace", ["x"], base, [NewText(file, "a = 2\n")], str(tmp_path))
    assert other.read_text() == "a = 2\n"
    assert other.samefile(file)
    undo(tmp_path / ".ctrace")
    assert other.read_text() == base[file]


def test_a_file_cut_while_it_was_written_in_place_is_taken_back(tmp_path: Path):
    base = files_in(tmp_path, one="a = 1\nb = 2\n")
    (file,) = base
    patch = apply(tmp_path / ".ctrace", ["x"], base, [NewText(file, "a = 9\n")], str(tmp_path))
    Path(file).write_text("a = 9\nb = 2\n")
    with pytest.raises(RunError, match="changed since"):
        undo(tmp_path / ".ctrace")
    patch.with_suffix(".unfinished").touch()
    undo(tmp_path / ".ctrace")
    assert texts(base) == list(base.values())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may change the owner")
def test_the_owner_stays(tmp_path: Path):
    base = files_in(tmp_path, one="a = 1\n")
    (file,) = base
    os.chown(file, 1234, 2345)
    apply(tmp_path / ".ctrace", ["x"], base, changed(base), str(tmp_path))
    assert (Path(file).stat().st_uid, Path(file).stat().st_gid) == (1234, 2345)
