"""The pytest plugin before any test uses its fixture."""

import subprocess
import sys
import tomllib

from tests.support.places import ROOT

PLUGIN = "ctrace.cli.gate.pytest_plugin"


def test_importing_the_plugin_imports_nothing_else() -> None:
    code = f"""
import sys, pytest
before = set(sys.modules)
import {PLUGIN}
new = sorted(set(sys.modules) - before)
print(*new)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    parts = PLUGIN.split(".")
    assert done.stdout.split() == [".".join(parts[: number + 1]) for number in range(len(parts))]


def test_the_plugin_is_an_entry_point_and_pytest_is_no_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"ctrace": PLUGIN}
    assert not any("pytest" in each for each in project["dependencies"])
