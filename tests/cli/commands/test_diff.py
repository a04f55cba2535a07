"""`ctrace diff` on logs: exit codes, formats, and errors of the command line."""

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.cli.diffing import with_settings, worktrees
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.outcome import Target
from ctrace.inspector.features.compare.changes import DiffDocument
from ctrace.inspector.features.compare.compare_runs import compare
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.load import load_log
from ctrace.inspector.runs.store import Store
from ctrace.reports.diff_markdown import render_diff_markdown
from ctrace.reports.json.printer import render
from ctrace.reports.terminal.diff_screen import diff_screen
from tests.support.golden import drawn
from tests.support.inprocess import ctrace
from tests.support.places import DATA


def log(name: str) -> str:
    return str(DATA / "diff" / f"{name}.log.gz")


def test_equal_runs_say_so_in_one_line():
    ran = ctrace("diff", log("base"), log("seed"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("EQUAL")
    assert len(ran.out.split("\n\n")) == 1
    assert "No differences in verdict, graph breaks" in " ".join(ran.out.split())


def test_differences_are_summed_up_first():
    ran = ctrace("diff", log("base"), log("broken"))
    assert ran.code == 0
    text = " ".join(ran.out.split())
    assert text.startswith("WORSE ")
    assert "broken.log.gz is worse: graph breaks 0 → 1; graphs 1 → 2. Different: verdict (1 changed), graph" in text


def test_the_next_command_shows_the_later_run():
    ran = ctrace("diff", log("base"), log("broken"))
    assert " ".join(ran.out.split()).endswith(f"Next ctrace explain {log('broken')}")
    assert ctrace("explain", log("broken")).out.startswith("PARTIAL")


@pytest.mark.parametrize(
    ("kinds", "code"),
    [("breaks", 1), ("breaks,kernels", 1), ("kernel", 1), ("accuracy", 0), ("any", 1), ("time,cache", 0)],
)
def test_fail_on_sets_the_exit_code(kinds: str, code: int):
    assert ctrace("diff", log("base"), log("broken"), "--fail-on", kinds).code == code


def test_fail_on_accepts_equal_runs():
    assert ctrace("diff", log("base"), log("again"), "--fail-on", "any").code == 0


@pytest.mark.parametrize("kinds", ["break,kernls", "", ",", "graphz"])
def test_unknown_kind_is_refused_before_anything_is_read(kinds: str):
    ran = ctrace("diff", "missing", "missing", "--fail-on", kinds)
    assert ran.code == 2
    assert ran.err.startswith("ctrace: --fail-on")
    assert len(ran.err.splitlines()) == 2


def test_unknown_kind_gets_a_suggestion():
    assert "did you mean kernel?" in ctrace("diff", "a", "b", "--fail-on", "kernls").err


def test_json_has_the_fixed_names():
    ran = ctrace("diff", log("base"), log("one_op_more"), "--json", "--fail-on", "graphs,breaks")
    data = json.loads(ran.out)
    assert ran.code == 1
    assert data["equal"] is False
    assert data["failed_on"] == ["graph"]
    assert {frozenset(change) >= {"what", "change", "where", "was", "now"} for change in data["changes"]} == {True}
    first = data["changes"][0]
    assert first | {"detail": []} == {
        "what": "graph",
        "change": "added",
        "where": "net.py:14",
        "was": None,
        "now": "mul(relu, 2) -> f32[4, 32]",
        "detail": [],
        "follows": [],
    }


def test_markdown_has_a_table_for_each_kind():
    ran = ctrace("diff", log("base"), log("broken"), "--markdown")
    assert ran.out.startswith("### ctrace diff:")
    assert "**graph breaks**" in ran.out
    assert "| added | `net.py:15` |" in ran.out


def test_formats_exclude_each_other():
    ran = ctrace("diff", log("base"), log("seed"), "--markdown", "--json")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "ctrace: --json and --markdown exclude each other")


def test_all_shows_the_source_of_kernels():
    ran = ctrace("diff", log("base"), log("one_op_more"), "--all")
    assert "@@" in ran.out


def test_one_run_is_not_enough():
    ran = ctrace("diff", log("base"))
    assert (ran.code, len(ran.err.splitlines())) == (2, 2)
    assert "a diff needs two runs" in ran.err


def test_unknown_mode_is_refused(tmp_path: Path):
    (tmp_path / "model.py").write_text("model = None\n", encoding="utf-8")
    ran = ctrace("diff", log("base"), f"{tmp_path}/model.py@max-autotun")
    assert ran.code == 2
    assert "did you mean max-autotune?" in ran.err


def test_missing_run_is_refused(tmp_path: Path):
    ran = ctrace("diff", log("base"), str(tmp_path / "absent"))
    assert (ran.code, len(ran.err.splitlines())) == (2, 2)


def _run(folder: Path, model: str, options: Options, recorded: str = "base") -> str:
    """Save a run of a model under options; its log is a recorded one."""
    (folder / model).touch()
    run = Store(folder / "runs").create(Target(str(folder / model), None))
    request = CaptureRequest("model", str(folder / model), None, None, (), options, str(run.log))
    run.request.write_text(request.to_json())
    run.log.write_bytes(gzip.decompress(Path(log(recorded)).read_bytes()))
    return str(run.folder)


def _settings(before: str, after: str) -> list[str]:
    notes = json.loads(ctrace("diff", before, after, "--json").out)["notes"]
    return [each for each in notes if "other settings" in each]


def test_two_runs_of_one_target_name_the_options_that_differ(tmp_path: Path):
    plain = _run(tmp_path, "m.py", Options())
    other = _run(tmp_path, "m.py", Options(inputs=("float32[4]",), train=True, dynamic=False, mode="max-autotune"))
    assert _settings(plain, other) == [
        "one target under other settings: --input not set, then float32[4]; --train not set, then on; "
        "--mode not set, then max-autotune; --dynamic not set, then off"
    ]
    assert "--train not set, then on" in " ".join(ctrace("diff", plain, other).out.split())


def test_equal_options_and_other_targets_name_none(tmp_path: Path):
    plain, again = _run(tmp_path, "m.py", Options()), _run(tmp_path, "m.py", Options())
    assert _settings(plain, again) == []
    assert _settings(plain, _run(tmp_path, "n.py", Options(train=True))) == []
    assert _settings(plain, log("base")) == []


def test_kernels_that_differ_because_of_settings_are_one_line(tmp_path: Path):
    before, after = (load_log(Path(log(name))) for name in ("base", "double"))
    after = replace(after, listings=before.listings)  # the same code, called with other inputs
    sides = _run(tmp_path, "m.py", Options()), _run(tmp_path, "m.py", Options(inputs=("float64[4,16]",)))
    found = with_settings(compare(before, after), (sides[0], before), (sides[1], after))
    line = "2 kernels differ, as the settings do: see --all"
    folded = drawn(diff_screen(DiffDocument("a", "b", found), all_of_it=False), 80)
    assert line in folded
    assert "\nKernels" not in folded
    whole = drawn(diff_screen(DiffDocument("a", "b", found), all_of_it=True), 80)
    assert line not in whole
    assert "\nKernels" in whole
    assert "2 kernels differ, as the settings do: see `ctrace diff --all`" in render_diff_markdown(
        DiffDocument("a", "b", found)
    )
    data = json.loads(render(DiffDocument("a", "b", found)))
    assert data["by_settings"]
    assert [each["what"] for each in data["changes"]].count("kernel") == 2


def test_a_target_with_a_mode_and_arguments_of_a_program_are_settings(tmp_path: Path):
    (tmp_path / "m.py").write_text("model = 1\n")
    session = load_log(Path(log("base")))
    model = str(tmp_path / "m.py")
    found = with_settings(compare(session, session), (model, session), (f"{model}@max-autotune", session))
    assert found.notes == ("one target under other settings: --mode not set, then max-autotune",)
    program = [
        CaptureRequest("program", model, None, None, args, Options(), "log") for args in ((), ("--size", "big one"))
    ]
    names = [_run(tmp_path, "m.py", Options()) for _ in program]
    for name, request in zip(names, program, strict=True):
        Store(tmp_path).load(name).request.write_text(request.to_json())
    found = with_settings(compare(session, session), (names[0], session), (names[1], session))
    assert found.notes == ("one target under other settings: arguments none, then --size 'big one'",)


def test_kernels_that_differ_because_of_code_are_listed(tmp_path: Path):
    plain = _run(tmp_path, "m.py", Options())
    other = _run(tmp_path, "m.py", Options(mode="max-autotune"), "one_op_more")
    ran = ctrace("diff", plain, other)
    assert "as the settings do" not in ran.out
    assert "\nKernels" in ran.out


def git(folder: Path, *words: str) -> str:
    words = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-C", str(folder), *words)
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
class TestWorktrees:
    def repository(self, folder: Path) -> Path:
        git(folder, "init", "--quiet", "--initial-branch", "main")
        for text in ("one", "two"):
            (folder / "model.py").write_text(text, encoding="utf-8")
            git(folder, "add", "-A")
            git(folder, "commit", "--quiet", "-m", text)
        return folder

    def test_both_revisions_are_checked_out_and_removed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(self.repository(tmp_path))
        with worktrees("HEAD~1..HEAD") as (before, after):
            assert [(folder / "model.py").read_text(encoding="utf-8") for folder in (before, after)] == ["one", "two"]
        assert not before.exists()
        assert len(git(tmp_path, "worktree", "list").splitlines()) == 1

    def test_they_are_removed_after_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(self.repository(tmp_path))
        with pytest.raises(KeyError), worktrees("HEAD~1.."):
            raise KeyError
        assert len(git(tmp_path, "worktree", "list").splitlines()) == 1

    @pytest.mark.parametrize("range_", ["HEAD", "nothing..HEAD", "HEAD..nothing", "-x..HEAD"])
    def test_bad_ranges_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, range_: str):
        monkeypatch.chdir(self.repository(tmp_path))
        with pytest.raises(TargetError, match="--git"), worktrees(range_):
            pass

    def test_folder_outside_of_a_repository_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(TargetError, match="--git"), worktrees("main..HEAD"):
            pass
