"""`ctrace check` catches every edit that hurts compilation, and stays quiet on every one that does not."""

from pathlib import Path

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
)
from tests.mutation.study import AGAIN, HAS_TRANSFORMERS, MADE, PARTIAL, WRITTEN, complaints, judged, lock_of

pytestmark = pytest.mark.integration

ROUNDS = (
    ("print", "item", "counter", "reformat", "decorate"),
    ("move-helper", "numpy", "rename-variable", "disabled-helper", "extract-function"),
)
"""One edit for each of the written models; all models with all edits take minutes."""
PARTIAL_ROUNDS = (
    ("known-over-lines", "rename-around-known", "move-layers"),
    ("other-in-line", "known-twice", "known-twice-in-line"),
)
WITHOUT = pytest.mark.skipif(not HAS_TRANSFORMERS, reason="transformers is not installed; it is not in ctrace's [dev]")


def assert_judged(folder: Path, edits: dict[str, Edit | None], models: tuple[str, ...]) -> None:
    found = judged(folder, edits, lock_of(models))
    assert complaints(edits, found) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", [ROUNDS[0], pytest.param(ROUNDS[1], marks=pytest.mark.slow)], ids=" ".join)
def test_each_model_with_another_edit(names: tuple[str, ...], tmp_path: Path) -> None:
    assert_judged(tmp_path, dict(zip(WRITTEN, map(named, names), strict=True)), WRITTEN)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "names", [PARTIAL_ROUNDS[1], pytest.param(PARTIAL_ROUNDS[0], marks=pytest.mark.slow)], ids=" ".join
)
def test_each_model_with_known_breaks_and_another_edit(names: tuple[str, ...], tmp_path: Path) -> None:
    assert_judged(tmp_path, dict(zip(PARTIAL, map(named, names), strict=True)), PARTIAL)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("models", [WRITTEN, pytest.param(MADE, marks=WITHOUT)], ids=["written", "transformers"])
@pytest.mark.parametrize("edit", [*HARMFUL, *HARMLESS], ids=lambda edit: edit.name)
def test_all_models_with_every_edit(edit: Edit, models: tuple[str, ...], tmp_path: Path) -> None:
    assert_judged(tmp_path, dict.fromkeys(models, edit), models)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "edit", [*PARTIAL_HARMFUL, *map(named, ELSEWHERE), *PARTIAL_HARMLESS, *HARMLESS], ids=lambda edit: edit.name
)
def test_models_with_known_breaks_and_every_edit(edit: Edit, tmp_path: Path) -> None:
    assert_judged(tmp_path, dict.fromkeys(PARTIAL, edit), PARTIAL)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("edit", [*map(named, BEYOND_AGAIN), *PARTIAL_HARMLESS, *HARMLESS], ids=lambda edit: edit.name)
def test_models_with_known_recompiles_and_every_edit(edit: Edit, tmp_path: Path) -> None:
    assert_judged(tmp_path, dict.fromkeys(AGAIN, edit), AGAIN)


@pytest.mark.slow
@pytest.mark.parametrize("model", [WRITTEN[0], PARTIAL[0]])
def test_a_renamed_file_beside_others(model: str, tmp_path: Path) -> None:
    models = WRITTEN if model in WRITTEN else PARTIAL
    assert_judged(tmp_path, {**dict.fromkeys(models), model: RENAME_FILE}, models)
