"""Save what `ctrace explain` prints about each model, at both widths, to be read by a person.

python -m tests.real.screens FOLDER [NAME ...]
"""

import shutil
import sys
from pathlib import Path

from tests.real.verify import Expected, expected, run_ctrace

WIDTHS = (80, 140)


def save(model: Expected, folder: Path) -> None:
    """Capture the model once; print the saved run at each width."""
    work = folder / model.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / f"{model.name}.py").write_text(model.text, encoding="utf-8")
    run_ctrace(["explain", f"{model.name}.py", *model.options, "--json", "-o", "report.json"], work)
    for width in WIDTHS:
        (work / f"{width}.txt").write_text(run_ctrace(["explain"], work, COLUMNS=str(width)), encoding="utf-8")


def main(folder: str, names: list[str]) -> None:
    for name, model in expected().items():
        if not names or name in names:
            save(model, Path(folder))
            print(name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
