"""The edits do what they claim, judged by torch without ctrace."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.edits import (
    BEYOND_AGAIN,
    ELSEWHERE,
    HARMFUL,
    HARMLESS,
    PARTIAL_HARMFUL,
    PARTIAL_HARMLESS,
    RENAME_FILE,
    Edit,
    named,
    shape_of,
)
from tests.mutation.study import AGAIN, MADE, PARTIAL, WRITTEN, files_of, source_of
from tests.mutation.test_study import PARTIAL_ROUNDS, ROUNDS, WITHOUT

TRUTH = Path(__file__).with_name("truth.py")
OF_PARTIAL = (*PARTIAL_HARMFUL, *map(named, ELSEWHERE), *PARTIAL_HARMLESS, *HARMLESS)
OF_AGAIN = (*map(named, BEYOND_AGAIN), *PARTIAL_HARMLESS, *HARMLESS)
EDITS = (
    dict.fromkeys((*WRITTEN, *MADE), (*HARMFUL, *HARMLESS))
    | dict.fromkeys(PARTIAL, OF_PARTIAL)
    | dict.fromkeys(AGAIN, OF_AGAIN)
)
"""The edits of each model."""


def test_there_are_enough_of_all() -> None:
    assert len((*WRITTEN, *MADE)) == 10
    assert len({each.name for each in HARMFUL}) >= 15
    assert len({each.name for each in HARMLESS}) >= 10


@pytest.mark.parametrize("model", EDITS)
def test_models_have_the_shape_that_edits_need(model: str) -> None:
    shape = shape_of(source_of(model))
    assert shape.own is not None
    assert shape.tensor.isidentifier()
    assert shape.loop.target is not None
    assert shape.helper.name not in ("model", "inputs")


@pytest.mark.parametrize("model", EDITS)
def test_edited_files_are_python_and_differ(model: str) -> None:
    for edit in EDITS[model]:
        files = files_of(model, edit)
        for text in files.values():
            ast.parse(text)
        assert files != {f"{model}.py": source_of(model)}, edit.name


def test_a_renamed_file_keeps_its_text() -> None:
    assert list(files_of("recurrent", RENAME_FILE).values()) == [source_of("recurrent")]


def measured(folder: Path, edited: list[tuple[str, Edit]]) -> list[tuple[str, Edit, dict[str, Any], dict[str, Any]]]:
    """Measure models with torch before and after edits."""
    before = {model: write(folder / "before" / model, model, None) for model, _ in edited}
    after = [write(folder / edit.name / model, model, edit) for model, edit in edited]
    words = [*before.values(), *after]
    done = subprocess.run([sys.executable, TRUTH, *words], capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr
    found = {line["file"]: line for line in map(json.loads, done.stdout.splitlines())}
    return [(model, edit, found[before[model]], found[path]) for (model, edit), path in zip(edited, after, strict=True)]


def write(folder: Path, model: str, edit: Edit | None) -> str:
    files = files_of(model, edit)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(folder / next(iter(files)))


def lies(folder: Path, edited: list[tuple[str, Edit]]) -> list[str]:
    """List the edits that do not do what they claim.

    A harmless one changes no result. Torch counts a break once for each function that was being inlined around it, so
    that a decorator makes known breaks more, and no graph.
    """
    wrong = []
    for model, edit, was, now in measured(folder, edited):
        facts = f"{edit.name} in {model}: {was}, then {now}"
        if "error" in was or "error" in now:
            wrong.append(facts)
        elif edit.shows and not any(now[each] > was[each] for each in ("graphs", "breaks", "left")):
            wrong.append(f"not harmful, {facts}")
        elif not edit.shows:
            counted = ("graphs", "left", "results") if was["breaks"] else ("graphs", "left", "results", "breaks")
            wrong += [f"not harmless, {facts}"] if any(now[each] != was[each] for each in counted) else []
    return wrong


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(600)
def test_torch_agrees_with_some_edits(tmp_path: Path) -> None:
    rounds = [zip(WRITTEN, names, strict=True) for names in ROUNDS]
    rounds += [zip(PARTIAL, names, strict=True) for names in PARTIAL_ROUNDS]
    assert lies(tmp_path, [(model, named(name)) for each in rounds for model, name in each]) == []


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("model", [*WRITTEN, *(pytest.param(each, marks=WITHOUT) for each in MADE), *PARTIAL, *AGAIN])
def test_torch_agrees_with_every_edit(model: str, tmp_path: Path) -> None:
    assert lies(tmp_path, [(model, edit) for edit in EDITS[model]]) == []
