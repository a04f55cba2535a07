"""The results, one cell for each pair and step, in a JSON file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix.pairs import ROOT, Pair, pairs

DATA = ROOT / "docs" / "reference" / "matrix.json"
NEVER = "it was not tried yet"


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of a step: `ok`, `failed` or `not run`."""

    result: str
    detail: str
    """A count, what failed, or the reason for not running."""

    def __str__(self) -> str:
        if self.result == "not run":
            return f"not run, because {self.detail}"
        return self.detail if self.result == "ok" else f"**failed**: {self.detail}"


class Store:
    """The stored results; `steps` names the steps in their order."""

    def __init__(self, path: Path, steps: Sequence[str]) -> None:
        self.path = path
        self.steps = steps
        text = path.read_text(encoding="utf-8") if path.exists() else "{}"
        self.rows: dict[str, dict[str, Any]] = json.loads(text)

    def put(self, pair: Pair, step: str, cell: Cell, **about: str) -> None:
        """Replace one cell; a step that was not run does not replace a result."""
        cells = self.rows.setdefault(pair.name, {}).setdefault("cells", {})
        if cell.result == "not run" and cells.get(step, {}).get("result", "not run") != "not run":
            return
        cells[step] = {"result": cell.result, "detail": cell.detail, **about}
        self._save()

    def cells(self, pair: Pair) -> list[Cell]:
        """Return the results of a pair, one for each step."""
        return [self.cell(pair, step) for step in self.steps]

    def cell(self, pair: Pair, step: str) -> Cell:
        """Return the stored result of a pair and a step."""
        found = self.rows.get(pair.name, {}).get("cells", {}).get(step)
        return Cell(found["result"], found["detail"]) if found else Cell("not run", NEVER)

    def about(self, pair: Pair, key: str) -> str:
        """Return the newest `date`, `torch` or `python` among the cells of a pair; empty if there is none."""
        cells = self.rows.get(pair.name, {}).get("cells", {}).values()
        known = [(each.get("date", ""), each[key]) for each in cells if key in each]
        return str(max(known)[1]) if known else ""

    def merge(self, path: Path) -> None:
        """Copy the cells of another run that are at least as new as ours."""
        for pair, row in Store(path, self.steps).rows.items():
            cells = self.rows.setdefault(pair, {}).setdefault("cells", {})
            for step, cell in row["cells"].items():
                if cell.get("date", "") >= cells.get(step, {}).get("date", ""):
                    cells[step] = cell
        self._save()

    def _save(self) -> None:
        order = [pair.name for pair in pairs()]
        known = {name: self._sorted(self.rows[name]) for name in order if name in self.rows}
        self.path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def _sorted(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"cells": {step: row["cells"][step] for step in self.steps if step in row["cells"]}}
