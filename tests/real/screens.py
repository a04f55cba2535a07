"""Save what `ctrace explain` prints about each model, at both widths, to be read by a person.

python -m tests.real.screens FOLDER [NAME ...]
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.real.verify import HERE, MODELS, TIMEOUT, Expected, expected

WIDTHS = (80, 140)


def save(model: Expected, folder: Path) -> None:
    """Capture the model once; print the saved run at each width and as JSON."""
    work = folder / model.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    shutil.copy(MODELS / f"{model.name}.py", work)
    _ctrace(["explain", f"{model.name}.py", *model.options, "--json", "-o", "report.json"], work)
    for width in WIDTHS:
        screen = _ctrace(["explain"], work, COLUMNS=str(width))
        (work / f"{width}.txt").write_text(screen, encoding="utf-8")


def _ctrace(arguments: list[str], folder: Path, **variables: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(HERE.parents[1]), "HF_HUB_OFFLINE": "1", **variables}
    command = [sys.executable, "-m", "ctrace", *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return done.stdout + done.stderr


def main(folder: str, names: list[str]) -> None:
    for name, model in expected().items():
        if not names or name in names:
            save(model, Path(folder))
            print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
