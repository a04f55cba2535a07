"""`ctrace check` catches every edit that hurts compilation, and stays quiet on every one that does not."""

from collections.abc import Callable
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
from tests.support.warm import WarmServer

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


Judge = Callable[[dict[str, Edit | None], tuple[str, ...]], None]


@pytest.fixture
def assert_judged(tmp_path: Path, warm_server: WarmServer | None) -> Judge:
    """Return a function that checks edited models against the lock of the unedited ones, and judges the result."""

    def judge(edits: dict[str, Edit | None], models: tuple[str, ...]) -> None:
        found = judged(tmp_path, edits, lock_of(models, warm_server), warm_server)
        assert complaints(edits, found) == []

    return judge


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", [ROUNDS[0], pytest.param(ROUNDS[1], marks=pytest.mark.slow)], ids=" ".join)
def test_each_model_with_another_edit(names: tuple[str, ...], assert_judged: Judge) -> None:
    assert_judged(dict(zip(WRITTEN, map(named, names), strict=True)), WRITTEN)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "names", [PARTIAL_ROUNDS[1], pytest.param(PARTIAL_ROUNDS[0], marks=pytest.mark.slow)], ids=" ".join
)
def test_each_model_with_known_breaks_and_another_edit(names: tuple[str, ...], assert_judged: Judge) -> None:
    assert_judged(dict(zip(PARTIAL, map(named, names), strict=True)), PARTIAL)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("models", [WRITTEN, pytest.param(MADE, marks=WITHOUT)], ids=["written", "transformers"])
@pytest.mark.parametrize("edit", [*HARMFUL, *HARMLESS], ids=lambda edit: edit.name)
def test_all_models_with_every_edit(edit: Edit, models: tuple[str, ...], assert_judged: Judge) -> None:
    assert_judged(dict.fromkeys(models, edit), models)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "edit", [*PARTIAL_HARMFUL, *map(named, ELSEWHERE), *PARTIAL_HARMLESS, *HARMLESS], ids=lambda edit: edit.name
)
def test_models_with_known_breaks_and_every_edit(edit: Edit, assert_judged: Judge) -> None:
    assert_judged(dict.fromkeys(PARTIAL, edit), PARTIAL)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("edit", [*map(named, BEYOND_AGAIN), *PARTIAL_HARMLESS, *HARMLESS], ids=lambda edit: edit.name)
def test_models_with_known_recompiles_and_every_edit(edit: Edit, assert_judged: Judge) -> None:
    assert_judged(dict.fromkeys(AGAIN, edit), AGAIN)


@pytest.mark.slow
@pytest.mark.parametrize("model", [WRITTEN[0], PARTIAL[0]])
def test_a_renamed_file_beside_others(model: str, assert_judged: Judge) -> None:
    models = WRITTEN if model in WRITTEN else PARTIAL
    assert_judged({**dict.fromkeys(models), model: RENAME_FILE}, models)
