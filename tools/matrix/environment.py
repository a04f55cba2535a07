"""Make the environment of a pair, and run programs in it."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from matrix.pairs import ROOT, Pair

MINUTES = 60
"""What a program in an environment may take."""


@dataclass(frozen=True, slots=True)
class Bench:
    """An environment, and a working folder outside the checkout."""

    python: Path
    scratch: Path

    def torch(self) -> str:
        """Return the version of torch without importing it."""
        return self.run("-c", "from importlib import metadata; print(metadata.version('torch'))").stdout.strip()

    def about(self) -> dict[str, str]:
        """Return what a result belongs to: today's date, and the versions of torch and Python."""
        code = "import platform, torch; print(torch.__version__, platform.python_version())"
        done = self.run("-c", code)
        torch, python = done.stdout.split() if done.returncode == 0 else ("", "")
        return {"date": datetime.now(UTC).date().isoformat(), "torch": torch, "python": python}

    def run(self, *words: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a module or a file in the environment, for at most `MINUTES`."""
        bin_folder = str(self.python.parent)
        environment = {
            **os.environ,
            "NO_COLOR": "1",
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            **variables,
        }
        return subprocess.run(
            [self.python, *words],
            cwd=cwd or self.scratch,
            env=environment,
            capture_output=True,
            text=True,
            timeout=MINUTES * 60,
            check=False,
        )


def interpreter(version: str, paths: Sequence[str]) -> str | None:
    """Find a Python of a version: from `--python`, this one, pyenv's or one on PATH; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    of_pyenv = sorted(str(path) for path in pyenv.glob(f"{version}.*/bin/python"))
    on_path = shutil.which(f"python{version}")
    candidates = [*paths, sys.executable, *reversed(of_pyenv), *([on_path] if on_path else [])]
    return next((path for path in candidates if _version(path) == version), None)


def _version(python: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""  # not a Python; the caller reports it


def install(pair: Pair, python: str, folder: Path) -> Path:
    """Make the environment of a pair, or reuse a complete one; return its Python.

    Raises:
        subprocess.CalledProcessError: venv or pip failed.
    """
    ready, inside = folder / ".ready", folder / "bin" / "python"
    constraints = constraints_of(pair)
    if ready.exists() and ready.read_text(encoding="utf-8") == constraints:
        return inside
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    listed = folder / "constraints.txt"
    listed.write_text(constraints, encoding="utf-8")
    pip: list[str | Path] = [inside, "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    subprocess.run([*pip, "-c", listed, "-e", f"{ROOT}[dev]"], check=True)
    ready.write_text(constraints, encoding="utf-8")
    return inside


def constraints_of(pair: Pair) -> str:
    """Return constraints.txt with the torch and Triton versions of a pair, and without comments."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("#"))
    text = re.sub(r"^torch==.*$", f"torch=={pair.torch}", text, flags=re.MULTILINE)
    return re.sub(r"^triton==.*$", f"triton=={pair.triton}", text, flags=re.MULTILINE)
