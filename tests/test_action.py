"""The GitHub Action: its script, run with a fake `ctrace`."""

import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.places import ROOT

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
CHECK = next(step for step in STEPS if step.get("id") == "check")
FAKE = """\
#!/usr/bin/env bash
printf '%s\\n' "$@" > "$SEEN"
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in --sarif | --junit) if [ "$CODE" != 2 ]; then : > "$2"; fi ;; esac
  shift
done
exit "$CODE"
"""


def _texts(node: object) -> list[str]:
    if isinstance(node, dict):
        return [text for each in node.values() for text in _texts(each)]
    if isinstance(node, list):
        return [text for each in node for text in _texts(each)]
    return [str(node)]


def _run(tmp_path: Path, code: int = 0, **inputs: str) -> tuple[int, list[str], dict[str, str]]:
    """Run the script as a runner does; return its exit code, the arguments of `ctrace`, and the outputs."""
    fake = tmp_path / "bin" / "ctrace"
    fake.parent.mkdir()
    fake.write_text(FAKE)
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    temp, output, seen = tmp_path / "runner temp", tmp_path / "output", tmp_path / "seen"
    temp.mkdir()
    environment = {
        "PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": str(temp),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "SEEN": str(seen),
        "CODE": str(code),
        **{"MODELS": "", "POLICY": "", "ARGS": "", **inputs},
    }
    script = tmp_path / "script.sh"
    script.write_text(CHECK["run"])
    command = ["bash", "--noprofile", "--norc", "-euo", "pipefail", str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
    return done.returncode, seen.read_text().splitlines(), outputs


def test_used_and_declared_inputs_are_the_same() -> None:
    used = {name for text in _texts(STEPS) for name in re.findall(r"inputs\.([\w-]+)", text)}
    assert used == set(ACTION["inputs"])


def test_no_script_holds_an_expression() -> None:
    assert not [step["run"] for step in STEPS if "${{" in step.get("run", "")]
    assert all(step["shell"] == "bash" for step in STEPS if "run" in step)


def test_every_output_is_written_by_the_script() -> None:
    for name, about in ACTION["outputs"].items():
        assert about["value"] == f"${{{{ steps.check.outputs.{name} }}}}"
        assert f"{name}=" in CHECK["run"]


@pytest.mark.parametrize("code", [0, 1, 3, 4])
def test_the_action_exits_like_the_check_and_names_the_files(tmp_path: Path, code: int) -> None:
    ended, words, outputs = _run(tmp_path, code)
    assert ended == code
    assert outputs.pop("exit-code") == str(code)
    assert set(outputs) == {"sarif", "junit"}
    assert all(Path(file).is_file() for file in outputs.values())
    assert words[:2] == ["check", "--annotations"]
    assert words[words.index("--summary") + 1] == str(tmp_path / "summary.md")
    assert words[-1] == "--"


def test_files_that_were_not_written_are_not_named(tmp_path: Path) -> None:
    ended, _, outputs = _run(tmp_path, 2)
    assert ended == 2
    assert outputs == {"exit-code": "2"}


def test_inputs_are_words_and_never_code(tmp_path: Path) -> None:
    models = "models/*.py\n\n$(touch made)\na b.py; touch made\n--update\n"
    _, words, _ = _run(tmp_path, MODELS=models, POLICY="my policy.yaml", ARGS="--jobs 2  `touch made` *")
    assert words[words.index("--policy") + 1] == "my policy.yaml"
    after = words[words.index("--policy") + 2 :]
    assert after[:5] == ["--jobs", "2", "`touch", "made`", "*"]
    assert after[5:] == ["--", "models/*.py", "$(touch made)", "a b.py; touch made", "--update"]
    assert not (tmp_path / "made").exists()
