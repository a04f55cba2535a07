"""Completion in bash, zsh and fish: the scripts that the shells load, and what they are answered."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.sampling import sampled

BOOT = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app(prog_name='ctrace')"
ABOUT_CHECK = "Check that models compile as well as before"


def answer(**variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run([sys.executable, "-c", BOOT], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", sampled(["bash", "zsh", "fish"]))
def test_the_script_of_a_shell_asks_ctrace(shell: str):
    assert f"_CTRACE_COMPLETE=complete_{shell}" in answer(_CTRACE_COMPLETE=f"source_{shell}")


@pytest.mark.parametrize(
    ("typed", "words"),
    sampled([("ctrace ch", ["check"]), ("ctrace breaks --ex", ["--explain"]), ("ctrace no-such", [])]),
)
def test_bash_gets_the_words_that_fit(typed: str, words: list[str]):
    position = str(len(typed.split()) - 1)
    found = answer(_CTRACE_COMPLETE="complete_bash", COMP_WORDS=typed, COMP_CWORD=position)
    assert found.split() == words


@pytest.mark.thorough
def test_zsh_and_fish_also_get_the_help():
    asked = {"_TYPER_COMPLETE_ARGS": "ctrace ch", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    assert f'"check":"{ABOUT_CHECK}' in answer(_CTRACE_COMPLETE="complete_zsh", **asked)
    assert f"check\t{ABOUT_CHECK}" in answer(_CTRACE_COMPLETE="complete_fish", **asked)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_itself_completes(tmp_path: Path):
    command = tmp_path / "ctrace"
    command.write_text(f"#!{sys.executable}\n{BOOT}\n")
    command.chmod(0o755)
    script = (
        'eval "$(_CTRACE_COMPLETE=source_bash ctrace)"; COMP_WORDS=(ctrace ch); COMP_CWORD=1;'
        ' _ctrace_completion ctrace; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("check\n", "")
