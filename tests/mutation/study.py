"""Run `ctrace check` on projects of edited models."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.integration.conftest import Command, Result
from tests.mutation.edits import Edit, Files
from tests.support.warm import WarmServer

FOLDER = Path(__file__).parent / "models"
WRITTEN = ("residual_mlp", "masked_attention", "conv_training", "recurrent", "batch_sizes")
"""Models written for this study."""
MADE = ("gpt2_head", "llama_head", "bert_pooled", "t5_encoder", "vit_features")
"""Models of `transformers`, made from small configurations."""
PARTIAL = ("partial_print", "partial_item", "partial_branch")
"""Models with breaks that are in the lock."""
AGAIN = ("partial_again",)
"""Models with recompilations that are in the lock."""
TRAINED = ("conv_training",)
HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
HEALTHY = (*WRITTEN, *(MADE if HAS_TRANSFORMERS else ()))


def source_of(model: str) -> str:
    return (FOLDER / f"{model}.py").read_text(encoding="utf-8")


def files_of(model: str, edit: Edit | None) -> Files:
    """Return the files of a model after an edit, the model's own first."""
    name, source = f"{model}.py", source_of(model)
    return edit.of(name, source) if edit else {name: source}


def check(folder: Path, edits: Mapping[str, Edit | None], *words: str, server: WarmServer | None = None) -> Result:
    """Write a project with one edit for each model, and run `ctrace check` in it."""
    ctrace = Command(folder, server)
    policy = "scenarios:\n  base: {}\n  train: {train: true}\nmodels:\n"
    for model, edit in edits.items():
        files = files_of(model, edit)
        for name, text in files.items():
            ctrace.write(f"models/{name}", text)
        scenario = "train" if model in TRAINED else "base"
        policy += f"- {{path: models/{next(iter(files))}, scenarios: [{scenario}]}}\n"
    ctrace.write("ctrace.yaml", policy)
    return ctrace("check", *words)


@cache
def lock_of(models: tuple[str, ...], server: WarmServer | None = None) -> str:
    """Return the lock of the unedited models."""
    with TemporaryDirectory() as folder:
        result = check(Path(folder), dict.fromkeys(models), "--update", server=server)
        assert result.code == 0, result.out + result.err
        return (Path(folder) / "ctrace.lock").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Judged:
    """A check's result for one model."""

    exit: int
    findings: list[dict[str, Any]]

    @property
    def shown(self) -> set[str]:
        """Kinds of sites that got worse; `more` for a count."""
        return {each["site"]["kind"] if each["site"] else each["kind"] for each in self.findings}

    @property
    def problems(self) -> list[str]:
        return [each["what"] for each in self.findings]


def judged(
    folder: Path, edits: Mapping[str, Edit | None], lock: str, server: WarmServer | None = None
) -> dict[str, Judged]:
    """Check edited models against the lock of the unedited ones, and return the result of each.

    Results for no model, such as one that vanished, have the empty name.
    """
    (folder / "ctrace.lock").write_text(lock, encoding="utf-8")
    result = check(folder, edits, "--json", server=server)
    assert result.code in (0, 1, 2, 3, 4), result.err
    by_path = {job["model"]: Judged(job["exit"], job["findings"]) for job in result.report["jobs"]}
    found = {model: by_path[f"models/{next(iter(files_of(model, edit)))}"] for model, edit in edits.items()}
    return {**found, "": Judged(0, result.report["findings"])}


def complaints(edits: Mapping[str, Edit | None], found: Mapping[str, Judged]) -> list[str]:
    """List where a check missed a harmful edit, or reported a harmless one."""
    wrong = [f"of no model: {text}" for text in found[""].problems]
    for model, edit in edits.items():
        one = found[model]
        if edit is not None and edit.shows:
            if one.exit != 1 or not one.shown & edit.shows:
                wrong.append(f"{edit.name} in {model} shows {sorted(edit.shows)}, got: {one.exit} {one.problems}")
        elif one.findings or one.exit:
            wrong.append(f"{edit.name if edit else 'nothing'} in {model} is harmless, got: {one.exit} {one.problems}")
    return wrong
