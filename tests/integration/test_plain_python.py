"""A program sees the same Python under ctrace as without it."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

PROBE = Path(__file__).with_name("plainpython.py")
ALLOWED = {
    "modules": "ctrace is loaded, and what it imports",
    "sys.meta_path": "one finder more: it notices when the program imports torch",
    "descriptors": "the log, and the pipe on which forks that generate code share cores",
}
"""What may differ, and why."""


def seen(command: list[str], folder: Path, **environment: str) -> dict[str, Any]:
    dump = folder / "dump.json"
    dump.unlink(missing_ok=True)
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "DUMP": str(dump), "COLUMNS": "80", **environment},
        input="typed\n",
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=280,
    )
    assert dump.exists(), done.stderr
    found: dict[str, Any] = json.loads(dump.read_text())
    return found


def differences(plain: dict[str, Any], watched: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (plain[name], watched[name]) for name in plain if plain[name] != watched[name]}


WAYS = {
    "a file": (["sub/prog.py", "--epochs", "1", "-o", "x"], {}),
    "a file below the folder": (["./sub/../sub/prog.py"], {}),
    "a module": (["-m", "pkg.tool", "--verbose"], {}),
    "a package": (["-m", "pkg", "x"], {}),
    "a folder": (["app", "x"], {}),
    "an archive": (["app.zip", "x"], {}),
    "variables of Python": (
        ["sub/prog.py"],
        {
            "PYTHONPATH": "lib",
            "PYTHONWARNINGS": "error::ResourceWarning",
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "3",
            "PYTHONIOENCODING": "latin-1:replace",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    ),
    "a safe path": (["sub/prog.py"], {"PYTHONSAFEPATH": "1"}),
    "another locale": (["sub/prog.py"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}),
    "development mode": (["sub/prog.py"], {"PYTHONDEVMODE": "1"}),
}


def prepare(folder: Path) -> None:
    for name in ("sub/prog.py", "pkg/tool.py", "pkg/__main__.py", "app/__main__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(PROBE, folder / name)
    (folder / "pkg" / "__init__.py").touch()
    with zipfile.ZipFile(folder / "app.zip", "w") as archive:
        archive.write(PROBE, "__main__.py")


@pytest.mark.parametrize("way", WAYS)
def test_the_program_gets_the_same_python(way: str, tmp_path: Path) -> None:
    prepare(tmp_path)
    words, environment = WAYS[way]
    plain = seen([sys.executable, *words], tmp_path, **environment)
    boot = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app(prog_name='ctrace')"
    watched = seen([sys.executable, "-c", boot, "run", *words], tmp_path, **environment)
    differs = differences(plain, watched)
    assert {name: differs[name] for name in differs if name not in ALLOWED} == {}


SHADOWED = ("hashlib", "json", "typing", "logging", "random", "inspect", "dataclasses", "enum", "shutil", "importlib")


@pytest.mark.long
@pytest.mark.parametrize("command", ["run", "explain"])
def test_files_in_the_working_directory_do_not_replace_modules(command: str, tmp_path: Path) -> None:
    for name in SHADOWED:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadow')\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "prog.py").write_text(
        "import hashlib, torch\nprint('survived')\ntorch.compile(len, backend='eager')([])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "ctrace", command, "sub/prog.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "survived" in done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


def test_a_module_beside_the_program_is_imported_by_it(tmp_path: Path) -> None:
    """Plain Python imports it instead of the standard library's module, which ctrace has already loaded."""
    for name in ("hashlib", "json", "dataclasses", "difflib"):
        (tmp_path / f"{name}.py").write_text("MINE = True\n")
    text = (
        "import hashlib, json, dataclasses, difflib\nprint(hashlib.MINE, json.MINE, dataclasses.MINE, difflib.MINE)\n"
    )
    (tmp_path / "prog.py").write_text(text)
    for words in ([], ["-m", "ctrace", "run"]):
        done = subprocess.run(
            [sys.executable, *words, str(tmp_path / "prog.py")],
            cwd=tmp_path.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == "True True True True\n", done.stderr


@pytest.mark.parametrize(("words", "seen_flag"), [(["-X", "dev"], "dev_mode"), (["-O"], "optimize")])
def test_options_of_the_users_python_reach_the_program(words: list[str], seen_flag: str, tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(f"import sys\nprint(int(sys.flags.{seen_flag}), sys.orig_argv[1:])\n")
    boot = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app(prog_name='ctrace')"
    command = [sys.executable, *words, "-c", boot, "run", "prog.py", "x"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == f"1 {[*words, 'prog.py', 'x']}\n", done.stderr
