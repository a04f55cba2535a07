"""The parts of the command line that need no torch."""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from ctrace.inspector.facts.session import Target
from ctrace.inspector.knowledge import releases
from ctrace.inspector.runs.store import Store
from tests.support import inprocess
from tests.support.places import DATA, ROOT
from tests.support.sampling import sampled

COMMANDS = (
    "explain",
    "breaks",
    "recompiles",
    "shapes",
    "guards",
    "bytecode",
    "graphs",
    "fusion",
    "kernels",
    "time",
    "cudagraphs",
    "autotune",
    "diff",
    "ranks",
    "accuracy",
    "report",
    "check",
    "run",
    "runs",
    "targets",
    "doctor",
)
NO_TORCH = "import sys; sys.modules['torch'] = None; sys.modules['triton'] = None; "


def _ctrace(*words: str, cwd: Path, code: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in this process, which is 10 times as fast, or in a new process after `code`."""
    if not code:
        with contextlib.chdir(cwd), patch.dict(os.environ, environment):
            ran = inprocess.ctrace(*words)
        return subprocess.CompletedProcess(words, ran.code, ran.out, ran.err)
    return _process(*words, cwd=cwd, code=code, **environment)


def _process(*words: str, cwd: Path, code: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    boot = (
        f"{code}import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app(prog_name='ctrace')"
    )
    environment = {**os.environ, **environment}
    command = [sys.executable, "-c", boot, *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def _saved(folder: Path) -> str:
    store = Store(folder / ".ctrace")
    run = store.create(Target("model.py", "model"))
    run.log.write_text('V0101 00:00:00.000000 1 ctrace:0] {"artifact": {"name": "ctrace_end"}}\n\t{}\n')
    return store.finish(run, 1.5, None, {"verdict": "not_compiled", "graphs": 0, "breaks": 0}).name


def test_help_names_every_command(tmp_path: Path) -> None:
    done = _ctrace("--help", cwd=tmp_path)
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_examples(command: str, tmp_path: Path) -> None:
    done = _ctrace(command, "--help", cwd=tmp_path, COLUMNS="80")
    assert done.returncode == 0
    assert f"  ctrace {command}" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_version(tmp_path: Path) -> None:
    assert _ctrace("--version", cwd=tmp_path).stdout.startswith("ctrace ")
    words = _ctrace("--version", "--verbose", cwd=tmp_path).stdout
    assert re.findall(r"^(\w+) ", words, re.MULTILINE)[:4] == ["ctrace", "python", "torch", "triton"]
    assert "missing command" in _ctrace("--verbose", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("explain", "--bogus"), ["ctrace: there is no option --bogus", "  ctrace explain -h lists the options"]),
        (("fix", "--aply"), ["ctrace: there is no option --aply", "  did you mean --apply?"]),
        (("explain", "--targt"), ["ctrace: there is no option --targt", "  did you mean --target?"]),
        (("--versio",), ["ctrace: there is no option --versio", "  did you mean --version?"]),
        (
            ("explain", "--timeout", "soon"),
            [
                "ctrace: invalid value for '--timeout': 'soon' is not a valid float range",
                "  ctrace explain -h shows how to write it",
            ],
        ),
        (("breaks", "--limit"), None),
        (("fusion", "a", "b"), None),
        (("explian",), ["ctrace: no such command 'explian'", "  did you mean 'explain'?"]),
        (("--verbose",), None),
    ],
)
def test_a_wrong_command_line_is_two_lines(words: tuple[str, ...], lines: list[str] | None, tmp_path: Path) -> None:
    done = _ctrace(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 2)
    if lines is not None:
        assert done.stderr.splitlines() == lines


@pytest.mark.parametrize("folder", [".", "sub/.."])
def test_this_folder_is_no_name_of_a_run(folder: str, tmp_path: Path) -> None:
    _saved(tmp_path)
    (tmp_path / "sub").mkdir()
    done = _ctrace("breaks", folder, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith("has no run and no trace log")


def test_a_command_without_words_shows_its_help(tmp_path: Path) -> None:
    done = _ctrace(cwd=tmp_path)
    assert done.returncode == 2
    assert "Start here:" in done.stderr + done.stdout


WITHOUT_TORCH = (
    ("--help",),
    ("explain",),
    ("explain", "--json"),
    ("explain", "--markdown"),
    ("breaks",),
    ("breaks", "--all", "--owner", "user"),
    ("breaks", "--json"),
    ("breaks", "--explain", "GB0170"),
    ("breaks", "--explain", "loop", "--json"),
    ("recompiles",),
    ("recompiles", "--all"),
    ("recompiles", "--json"),
    ("recompiles", "--explain", "size"),
    ("recompiles", "--explain", "identity", "--json"),
    ("shapes",),
    ("shapes", "--json"),
    ("bytecode",),
    ("bytecode", "--json"),
    ("fusion",),
    ("fusion", "--rounds"),
    ("fusion", "--json"),
    ("runs",),
    ("kernels",),
    ("runs", "--json"),
    ("targets",),
    ("targets", "--json"),
    ("targets", "h100"),
    ("schema",),
    ("schema", "check"),
    *((view, str(DATA / "fused.log")) for view in ("explain", "guards", "graphs", "fusion", "kernels", "shapes")),
    *((view, str(DATA / "rewritten.log")) for view in ("breaks", "bytecode")),
)


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], list[Any]]:
    """Run all commands that need no torch in one new process that cannot import it: exit code, stdout and stderr."""
    folder = tmp_path_factory.mktemp("without_torch")
    _saved(folder)
    script = (
        f"{NO_TORCH}import json; sys.path.insert(0, {str(ROOT)!r}); from tests.support.inprocess import ctrace; "
        f"found = [ctrace(*words) for words in {WITHOUT_TORCH!r}]; "
        "print(json.dumps([(each.code, each.out, each.err) for each in found]))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(WITHOUT_TORCH, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("words", WITHOUT_TORCH, ids=lambda words: " ".join(Path(each).name for each in words))
def test_commands_that_need_no_torch_never_import_it(
    words: tuple[str, ...], without_torch: dict[tuple[str, ...], list[Any]]
) -> None:
    code, out, err = without_torch[words]
    assert (code, err) == (0, "")
    assert out


def test_a_wrong_command_gets_a_suggestion(tmp_path: Path) -> None:
    done = _ctrace("expalin", cwd=tmp_path)
    assert done.returncode == 2
    assert "explain" in done.stderr


def test_no_run_yet(tmp_path: Path) -> None:
    done = _ctrace("explain", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "ctrace: there is no run in .ctrace yet",
        "  create one: ctrace explain model.py",
    ]


def test_a_report_goes_to_a_file(tmp_path: Path) -> None:
    _saved(tmp_path)
    done = _ctrace("explain", "--json", "-o", "report.json", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "Wrote report.json\n")
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "not_compiled"


class TestBreaks:
    def test_the_last_run_is_shown(self, tmp_path: Path) -> None:
        name = _saved(tmp_path)
        done = _ctrace("breaks", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("NOT COMPILED  model.py\n")
        assert _ctrace("breaks", name, cwd=tmp_path).stdout == done.stdout

    def test_as_json(self, tmp_path: Path) -> None:
        _saved(tmp_path)
        data = json.loads(_ctrace("breaks", "--json", cwd=tmp_path).stdout)
        assert (data["verdict"], data["breaks"], data["skipped"]) == ("not_compiled", [], [])

    @pytest.mark.parametrize("words", [("breaks",), ("breaks", "--json")])
    def test_into_a_file(self, words: tuple[str, ...], tmp_path: Path) -> None:
        _saved(tmp_path)
        shown = _ctrace(*words, cwd=tmp_path).stdout
        done = _ctrace(*words, "-o", "breaks.txt", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "Wrote breaks.txt\n")
        assert (tmp_path / "breaks.txt").read_text() == shown

    def test_no_run_yet(self, tmp_path: Path) -> None:
        done = _ctrace("breaks", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("ctrace: there is no run in .ctrace yet\n")

    @pytest.mark.parametrize("owner", ["user", "Library", "TORCH"])
    def test_one_owner_can_be_selected(self, owner: str, tmp_path: Path) -> None:
        _saved(tmp_path)
        assert _ctrace("breaks", "--owner", owner, cwd=tmp_path).returncode == 0

    def test_an_unknown_owner_is_refused(self, tmp_path: Path) -> None:
        _saved(tmp_path)
        done = _ctrace("breaks", "--owner", "bogus", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines() == [
            "ctrace: --owner bogus: there is no such owner",
            "  choose one of user, library, torch",
        ]

    def test_a_lesson_needs_no_run(self, tmp_path: Path) -> None:
        done = _ctrace("breaks", "--explain", "gb170", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("GB0170  a branch on a tensor's value\n")
        assert "If it is an assert" in done.stdout
        assert list(tmp_path.iterdir()) == []

    def test_a_lesson_as_json(self, tmp_path: Path) -> None:
        done = _ctrace("breaks", "--explain", "loop", "--json", "-o", "loop.json", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "")
        data = json.loads((tmp_path / "loop.json").read_text())
        assert (data["id"], data["torch"]) == ("loop", None)

    def test_an_unknown_lesson_is_refused(self, tmp_path: Path) -> None:
        done = _ctrace("breaks", "--explain", "nonsense", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        first, second = done.stderr.splitlines()
        assert first == "ctrace: nonsense: no such kind of graph break"
        assert "GB0170" in second


class TestRecompiles:
    def test_the_last_run_is_shown(self, tmp_path: Path) -> None:
        name = _saved(tmp_path)
        done = _ctrace("recompiles", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("NOT COMPILED  model.py\n")
        assert _ctrace("recompiles", name, cwd=tmp_path).stdout == done.stdout

    def test_as_json(self, tmp_path: Path) -> None:
        _saved(tmp_path)
        data = json.loads(_ctrace("recompiles", "--json", cwd=tmp_path).stdout)
        assert (data["verdict"], data["groups"], data["recompiles"], data["caches"]) == ("not_compiled", [], [], [])

    @pytest.mark.parametrize("words", [("recompiles",), ("recompiles", "--json")])
    def test_into_a_file(self, words: tuple[str, ...], tmp_path: Path) -> None:
        _saved(tmp_path)
        shown = _ctrace(*words, cwd=tmp_path).stdout
        done = _ctrace(*words, "-o", "report.txt", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "Wrote report.txt\n")
        assert (tmp_path / "report.txt").read_text() == shown

    def test_a_lesson_needs_no_run(self, tmp_path: Path) -> None:
        done = _ctrace("recompiles", "--explain", "size", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("size  ")
        assert list(tmp_path.iterdir()) == []

    def test_an_unknown_lesson_is_refused(self, tmp_path: Path) -> None:
        done = _ctrace("recompiles", "--explain", "nonsense", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("ctrace: nonsense: ")


class TestDamaged:
    """ctrace warns about a run whose run.json cannot be read."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        damaged = tmp_path / ".ctrace" / "20260101-000000-old"
        damaged.mkdir(parents=True)
        (damaged / "run.json").write_text("{")
        return tmp_path

    @pytest.mark.parametrize("words", [("runs",), ("runs", "--json"), ("explain",), ("explain", "--json"), ("breaks",)])
    def test_a_damaged_run_is_mentioned_beside_the_others(self, words: tuple[str, ...], folder: Path) -> None:
        _saved(folder)
        done = _ctrace(*words, cwd=folder)
        assert done.returncode == 0
        (line,) = done.stderr.splitlines()
        assert line.startswith("ctrace: .ctrace/20260101-000000-old/run.json cannot be read (")
        assert line.endswith("; skipped")
        assert "20260101-000000-old" not in done.stdout

    @pytest.mark.parametrize(("command", "code"), [("runs", 0), ("explain", 2)])
    def test_a_damaged_run_is_mentioned_if_it_is_the_only_one(self, command: str, code: int, folder: Path) -> None:
        done = _ctrace(command, cwd=folder)
        assert (done.returncode, done.stdout) == (code, "")
        assert "run.json cannot be read" in done.stderr.splitlines()[0]

    def test_selecting_it_explains_what_to_do(self, folder: Path) -> None:
        done = _ctrace("explain", "20260101-000000-old", cwd=folder)
        assert done.returncode == 2
        first, second = done.stderr.splitlines()
        assert "run.json cannot be read" in first
        assert "delete the folder" in second

    def test_a_run_of_a_newer_ctrace_is_mentioned_too(self, folder: Path) -> None:
        (folder / ".ctrace" / "20260101-000000-old" / "run.json").write_text('{"schema": 99}')
        assert "newer ctrace" in _ctrace("runs", cwd=folder).stderr

    def test_selecting_another_run_does_not_mention_it(self, folder: Path) -> None:
        assert _ctrace("explain", _saved(folder), cwd=folder).stderr == ""


def test_runs_lists_and_prunes(tmp_path: Path) -> None:
    name = _saved(tmp_path)
    assert name in _ctrace("runs", cwd=tmp_path).stdout
    assert json.loads(_ctrace("runs", "--json", cwd=tmp_path).stdout)[0]["name"] == name
    assert _ctrace("runs", "--prune", "0", cwd=tmp_path).stderr == "Deleted 1 of 1 run\n"
    assert "No runs" in _ctrace("runs", cwd=tmp_path).stderr


@pytest.mark.parametrize("environment", sampled([{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}]))
def test_a_pipe_gets_no_colors(environment: dict[str, str], tmp_path: Path) -> None:
    _saved(tmp_path)
    assert "\x1b" not in _process("explain", cwd=tmp_path, **environment).stdout


def test_a_reader_that_closes_early_is_no_error(tmp_path: Path) -> None:
    _saved(tmp_path)
    boot = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app()"
    command = f'"{sys.executable}" -c "{boot}" explain | head -n 0; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("version", "what"),
    sampled([(None, "torch is not installed"), ("2.9.1", "torch 2.9.1 is too old"), ("1.13", "too old")]),
)
def test_a_torch_out_of_range(version: str | None, what: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("model = inputs = None\n")
    raising = "raise_()" if version is None else repr(version)
    code = (
        "from importlib import metadata\ndef raise_(): raise metadata.PackageNotFoundError\n"
        f"metadata.version = lambda name: {raising}\n"
    )
    done = _ctrace("explain", "model.py", cwd=tmp_path, code=code)
    assert done.returncode == 2
    first, second = done.stderr.splitlines()
    assert what in first
    assert "pip install" in second


def test_a_command_loads_only_itself(tmp_path: Path) -> None:
    _saved(tmp_path)
    code = (
        "import atexit, sys; atexit.register(lambda: print([each for each in sys.modules "
        "if each.startswith('ctrace.cli.commands.')], file=sys.stderr)); "
    )
    assert _process("breaks", cwd=tmp_path, code=code).stderr.splitlines()[-1] == "['ctrace.cli.commands.breaks']"
    assert "commands.doctor" in _process("--help", cwd=tmp_path, code=code).stderr


def test_help_groups_commands_in_the_order_in_which_people_need_them(tmp_path: Path) -> None:
    shown = _ctrace("--help", cwd=tmp_path, COLUMNS="140").stdout
    groups = re.findall(r"^(\w[\w ]+):$", shown, re.MULTILINE)
    assert groups == ["Options", "Start here", "Look closer", "Compare", "Speed", "Kernels", "Tools"]
    first = re.findall(r"^  (\w+)  ", shown.partition("Start here:\n")[2].partition("\n\n")[0], re.MULTILINE)
    assert first == ["explain", "fix", "check"]
    below = re.findall(r"^ {2,4}\w+(?=  )", shown.partition("\nKernels:\n")[2].partition("\n\n")[0], re.MULTILINE)
    assert below == ["  kernels", *(f"    {name}" for name in ("eject", "apply", "tune", "edit", "wrap"))]


@pytest.mark.parametrize("command", sampled(["explain model.py", "check --init model.py", "check model.py"]))
def test_without_torch_each_first_command_says_so_and_writes_nothing(command: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("model = inputs = None\n")
    code = (
        "from importlib import metadata\ndef raise_(name): raise metadata.PackageNotFoundError\n"
        "metadata.version = raise_\n"
    )
    done = _ctrace(*command.split(), cwd=tmp_path, code=code)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "ctrace: torch is not installed in this environment",
        '  pip install "torch>=2.11"',
    ]
    assert [each.name for each in tmp_path.iterdir()] == ["model.py"]


def test_on_windows_the_first_command_says_what_works_there(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("model = inputs = None\n")
    ran = _ctrace("explain", "model.py", cwd=tmp_path, code=_PRETENDED)
    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [
        "ctrace: ctrace cannot run models on Windows",
        "  run it in WSL 2; saved runs and logs of torch can be read here",
    ]


_PRETENDED = """
import ctrace.inspector.knowledge.releases as installed
class _Windows:
    platform = "win32"
installed.sys = _Windows
"""


def test_an_old_python_gets_two_lines(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import ctrace.__main__ as program; "
        "program.sys = type('Old', (), {'version_info': (3, 10, 4), 'stderr': sys.stderr, 'exit': sys.exit}); "
        "program.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "ctrace: Python 3.10 is too old; ctrace needs 3.11 or newer",
        "  make an environment with a newer one: python3.11 -m venv .venv",
    ]


FIRST = (
    "explain model.py", "explain model.py --fast", "check model.py", "check --init model.py", "fix model.py",
    "kernels model.py", "report model.py", "breaks model.py", "time model.py", "time --compile model.py", "accuracy model.py",
    "run model.py", "repro model.py", "kernels eject relu -o ops --of model.py", "kernels model.py --target h100",
)  # fmt: skip
"""Commands that may be the first that a person types."""


def _refused(command: str, folder: Path) -> list[str]:
    """Run a command that is refused; return its two lines, and check that it wrote no file and nothing on stdout."""
    before = sorted(folder.rglob("*"))
    done = _ctrace(*command.split(), cwd=folder)
    assert (done.returncode, done.stdout) == (2, ""), command
    assert sorted(folder.rglob("*")) == before, command
    first, second = done.stderr.splitlines()
    assert first.startswith("ctrace: "), command
    assert second.startswith("  "), command
    return [first, second]


@pytest.mark.parametrize("command", FIRST)
def test_a_file_that_python_cannot_read_names_the_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\nmodel = (\n")
    assert "model.py, line 2: '(' was never closed" in _refused(command, tmp_path)[0]


@pytest.mark.parametrize(
    "command",
    [
        *FIRST,
        "explain",
        "explain .",
        "check",
        "check --init",
        "fix",
        "kernels",
        "report",
        "time",
        "run",
        "ranks .",
        "repro",
    ],
)
def test_an_empty_folder(command: str, tmp_path: Path) -> None:
    _refused(command, tmp_path)


@pytest.mark.parametrize("command", [*FIRST, "check"])
@pytest.mark.parametrize(
    ("what", "module", "value"),
    [
        ("torch is not installed", "torch_version", lambda: None),
        ("cannot run models on Windows", "sys", SimpleNamespace(platform="win32")),
    ],
)
def test_no_torch_and_windows(
    command: str, what: str, module: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text("model = inputs = None\n")
    monkeypatch.setattr(releases, module, value)
    assert what in _refused(command, tmp_path)[0]


def test_no_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text("model = inputs = None\n")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *words: None if name == "triton" else find_spec(name, *words)
    )
    assert "--target needs Triton" in _refused("kernels model.py --target h100", tmp_path)[0]


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write anywhere")
@pytest.mark.parametrize(
    "command", sampled(["report model.py", "explain model.py --json -o new.json", "check --init model.py"])
)
def test_a_folder_without_permission_is_refused_before_anything_runs(command: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("model = inputs = None\nopen('ran', 'w')\n")
    tmp_path.chmod(0o500)
    obeying = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--"] if os.geteuid() == 0 else []
    boot = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app(prog_name='ctrace')"
    done = subprocess.run(
        [*obeying, sys.executable, "-c", boot, *command.split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    tmp_path.chmod(0o700)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert "cannot be written: " in first
    assert "permission" in first
    assert second.startswith("  name another file")


def test_the_refusal_of_a_single_model_is_in_other_formats(tmp_path: Path) -> None:
    done = _ctrace("check", "model.py", "--json", "--junit", "ctrace.xml", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no file model.py" in done.stdout
    assert "there is no file model.py" in (tmp_path / "ctrace.xml").read_text()


def test_github_needs_init(tmp_path: Path) -> None:
    done = _ctrace("check", "--github", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 2)
