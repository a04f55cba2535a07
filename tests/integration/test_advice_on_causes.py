"""The advice on causes is true: `before` is compiled again for this very cause, `after` is not compiled again at all."""

import functools
import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ctrace
from ctrace.inspector.advice import entries
from ctrace.inspector.model import Cause, Session

pytestmark = pytest.mark.integration

CAUSES = {key: entry for key, entry in entries("causes").items() if entry.before}


@contextmanager
def _torch_as_it_was() -> Iterator[None]:
    """Compile an example in the quick way, and undo what it changes.

    Torch empties the processor's caches to time the guards of each graph (2.13, _dynamo/guards.py:4516), which takes
    longer than all else.
    """
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
        patch.setattr(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0)
        patch.setattr(logging.getLogger("torch.__trace"), "propagate", False)
        threads = torch.get_num_threads()
        torch._dynamo.reset()
        yield
        torch.use_deterministic_algorithms(False)
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(threads)


def _run(code: str, file: Path) -> None:
    """Run an example, with a device that is everywhere."""
    file.write_text("import torch\n\n" + code.replace('"cuda"', '"meta"'), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("example", file)
    assert spec is not None
    assert spec.loader is not None
    with _torch_as_it_was():
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Run all examples of what recompiles in one trace; torch is reset before each."""
    folder = tmp_path_factory.mktemp("examples")
    with ctrace.trace() as traced:
        for number, entry in enumerate(CAUSES.values()):
            _run(entry.before, folder / f"example_{number}.py")
    return traced.session


def _causes(session: Session, number: int) -> list[Cause]:
    """Give the causes of an example by its number: after a reset, `0/1` becomes `2.0/1`."""
    begin = f"{number + 1}." if number else ""
    return [
        cause
        for recompile in session.recompiles
        if recompile.compilation.startswith(begin) and ("." in recompile.compilation) is bool(begin)
        for cause in recompile.causes
    ]


@pytest.mark.parametrize("key", CAUSES)
def test_the_example_is_compiled_again_for_this_cause(key: str, session: Session) -> None:
    causes = _causes(session, list(CAUSES).index(key))
    assert {(cause.kind, cause.advice.before) for cause in causes} == {(key.partition("/")[0], CAUSES[key].before)}


def test_the_sources_agree_on_all_examples(session: Session) -> None:
    assert session.problems == ()


@pytest.mark.parametrize("key", CAUSES)
def test_what_the_advice_says_is_not_compiled_again(key: str, tmp_path: Path) -> None:
    import torch

    with torch._dynamo.config.patch(error_on_recompile=True):
        _run(CAUSES[key].after, tmp_path / "example.py")
