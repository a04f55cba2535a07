"""The advice on causes is true: `before` recompiles for this cause, `after` never recompiles."""

from pathlib import Path

import pytest

import ctrace
from ctrace.inspector.facts.session import Session
from ctrace.inspector.knowledge.advice import entries
from ctrace.inspector.knowledge.releases import NEWEST, release_of
from tests.integration.examples import recompiles_of, run

pytestmark = pytest.mark.integration

CAUSES = {key: entry for key, entry in entries("causes").items() if entry.before}


ELSEWHERE = {
    "requires_grad/parameter": "torch 2.11 does not compile again for it",
    "other/nan": "torch 2.11 has one more guard on such a float",
    "argument_value/iterator": "torch 2.11 breaks the graph at next()",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Run all recompiling examples in one trace."""
    folder = tmp_path_factory.mktemp("examples")
    with ctrace.trace() as traced:
        for number, entry in enumerate(CAUSES.values()):
            run(entry.before, folder / f"example_{number}.py")
    return traced.session


@pytest.mark.long
@pytest.mark.parametrize("key", CAUSES)
def test_the_example_recompiles_for_this_cause(key: str, session: Session) -> None:
    if key in ELSEWHERE and (release_of(session.environment.torch) or NEWEST) < (2, 13):
        pytest.skip(ELSEWHERE[key])
    recompiles = recompiles_of(session, list(CAUSES).index(key))
    causes = {(cause.kind, cause.advice.before) for each in recompiles for cause in each.causes}
    assert causes == {(key.partition("/")[0], CAUSES[key].before)}


def test_the_sources_agree_on_all_examples(session: Session) -> None:
    assert session.problems == ()


@pytest.mark.parametrize("key", CAUSES)
def test_the_advised_code_does_not_recompile(key: str, tmp_path: Path) -> None:
    import torch

    with torch._dynamo.config.patch(error_on_recompile=True):
        run(CAUSES[key].after, tmp_path / "example.py")
