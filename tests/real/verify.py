"""Prove expected.yaml: count each model before and after its repair, with ctrace and with torch alone.

python -m tests.real.verify [--advice] [NAME ...]

With --advice, apply the first line of "What to do" in place of the repair, and say what it is worth; see advice.py.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
MODELS = HERE / "models"
COUNTS = ("graphs", "breaks", "recompiles")
TIMEOUT = 280


@dataclass(frozen=True, slots=True)
class Expected:
    """One model of expected.yaml."""

    name: str
    data: dict[str, Any]

    @property
    def options(self) -> list[str]:
        """Return the arguments of `ctrace explain`; only Dynamo runs, unless a model is about Inductor."""
        options = [str(each) for each in self.data.get("options", [])]
        is_program = "def inputs" not in self.text
        return options if is_program or "--backend" in options else ["--backend", "eager", *options]

    @property
    def text(self) -> str:
        return (MODELS / f"{self.name}.py").read_text(encoding="utf-8")

    @property
    def repair_options(self) -> list[str]:
        return [str(each) for each in self.data["repair"].get("options", [])]

    @property
    def advice(self) -> dict[str, Any]:
        """Return ctrace's first advice: its text, and its edits to the file."""
        found: dict[str, Any] = self.data["advice"]
        return found

    @property
    def advised(self) -> tuple[list[dict[str, str]], list[str]]:
        """Return the edits and options of the advice, which may be those of the repair."""
        change = self.data["repair"] if self.advice.get("is_repair") else self.advice
        return change.get("edits", []), [str(each) for each in change.get("options", [])]

    @property
    def advice_after(self) -> dict[str, Any]:
        """Return torch's counts after the advice is applied."""
        by_torch: dict[str, Any] = {**self.data.get("after", {}), **self.data.get("torch_says", {}).get("after", {})}
        return by_torch if self.advice.get("is_repair") else self.advice["after"]


@cache
def expected() -> dict[str, Expected]:
    data = yaml.safe_load((HERE / "expected.yaml").read_text(encoding="utf-8"))
    return {name: Expected(name, each) for name, each in data.items()}


def repaired(model: Expected) -> str:
    """Apply the edits of a repair."""
    return changed(model.name, model.text, model.data["repair"].get("edits", []))


def changed(name: str, text: str, edits: list[dict[str, str]]) -> str:
    """Apply edits to a model's text.

    Raises:
        ValueError: an edit's old text is not there exactly once.
    """
    for edit in edits:
        if text.count(edit["old"]) != 1:
            raise ValueError(f"{name}: {edit['old']!r} is there {text.count(edit['old'])} times")
        text = text.replace(edit["old"], edit["new"])
    return text


def explained(file: Path, options: list[str]) -> dict[str, Any]:
    """Return the counts of `ctrace explain --json`."""
    report = file.parent / "report.json"
    run_ctrace(["explain", file.name, *options, "--json", "-o", report.name], file.parent)
    found = json.loads(report.read_text(encoding="utf-8"))
    error = found["error"]["message"] if found["error"] else None
    return {"verdict": found["verdict"], "error": error, **{count: len(found[count]) for count in COUNTS}}


def counted(file: Path, options: list[str]) -> dict[str, Any]:
    """Return the counts of torch alone."""
    output = _run([sys.executable, str(HERE / "count.py"), file.name, *options], file.parent)
    return json.loads(next(line for line in output.splitlines() if line.startswith("COUNTED ")).partition(" ")[2])


def run_ctrace(arguments: list[str], folder: Path, **variables: str) -> str:
    """Return the output of ctrace."""
    return _run([sys.executable, "-m", "ctrace", *arguments], folder, **variables)


def _run(command: list[str], folder: Path, **variables: str) -> str:
    root = str(HERE.parents[1])
    env = {**os.environ, "PYTHONPATH": root, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **variables}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return done.stdout


def differences(model: Expected) -> Iterator[str]:
    """Yield the differences from expected.yaml; none if it is proven."""
    yield from _of_state(model, "before", model.text, model.options)
    if "repair" in model.data:
        yield from _of_state(model, "after", repaired(model), [*model.options, *model.repair_options])


def _of_state(model: Expected, state: str, text: str, options: list[str]) -> Iterator[str]:
    expected_counts = model.data[state]
    by_ctrace = {**expected_counts, **model.data.get("ctrace_says", {}).get(state, {})}
    by_torch = {**expected_counts, **model.data.get("torch_says", {}).get(state, {})}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{model.name}.py"
        file.write_text(text, encoding="utf-8")
        found, counts = explained(file, options), counted(file, options)
    for what in ("verdict", *COUNTS):
        if found[what] != by_ctrace[what]:
            yield f"{model.name} {state}: ctrace says {what} {found[what]}, expected {by_ctrace[what]}"
    for what in COUNTS:
        if counts[what] != by_torch[what]:
            yield f"{model.name} {state}: torch says {what} {counts[what]}, expected {by_torch[what]}"
    if bool(found["error"] or counts["error"]) != (expected_counts["verdict"] == "failed"):
        yield f"{model.name} {state}: raised {found['error'] or counts['error']}"


def main(arguments: list[str]) -> int:
    names = [each for each in arguments if each != "--advice"]
    chosen = {name: model for name, model in expected().items() if not names or name in names}
    return _prove_advice(chosen) if "--advice" in arguments else _prove(chosen)


def _prove_advice(models: dict[str, Expected]) -> int:
    from tests.real import advice

    outcomes, failed = [], 0
    for model in models.values():
        outcomes.append(advice.outcome(model))
        wrong = list(advice.differences(model, outcomes[-1]))
        failed += bool(wrong)
        print("\n".join(wrong) or f"{model.name}: proven", flush=True)
    print("\n".join(advice.table(outcomes)))
    return int(bool(failed))


def _prove(models: dict[str, Expected]) -> int:
    failed = 0
    for name, model in models.items():
        wrong = list(differences(model))
        failed += bool(wrong)
        print("\n".join(wrong) or f"{name}: proven", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
