"""The advice on causes is true: `before` is compiled again for this very cause, `after` is not compiled again at all."""

import functools
import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import ctrace
from ctrace.inspector.advice import entries

pytestmark = pytest.mark.integration

CAUSES = {key: entry for key, entry in entries("causes").items() if entry.before}


@pytest.fixture(autouse=True)
def torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compile examples in the quick way, and undo what they change.

    Torch empties the processor's caches to time the guards of each graph (2.13, _dynamo/guards.py:4516), which takes
    longer than all else.
    """
    import torch

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    monkeypatch.setattr(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0)
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "propagate", False)
    threads = torch.get_num_threads()
    torch._dynamo.reset()
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_default_dtype(torch.float32)
    torch.set_float32_matmul_precision("highest")
    torch.set_num_threads(threads)


def _run(code: str, folder: Path) -> None:
    """Run an example, with a device that is everywhere."""
    file = folder / "example.py"
    file.write_text("import torch\n\n" + code.replace('"cuda"', '"meta"'), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("example", file)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("key", CAUSES)
def test_the_example_is_compiled_again_for_this_cause(key: str, tmp_path: Path) -> None:
    entry = CAUSES[key]
    with ctrace.trace() as traced:
        _run(entry.before, tmp_path)
    causes = [cause for recompile in traced.session.recompiles for cause in recompile.causes]
    assert {(cause.kind, cause.advice.before) for cause in causes} == {(key.partition("/")[0], entry.before)}
    assert traced.session.problems == ()


@pytest.mark.parametrize("key", CAUSES)
def test_what_the_advice_says_is_not_compiled_again(key: str, tmp_path: Path) -> None:
    import torch

    with torch._dynamo.config.patch(error_on_recompile=True):
        _run(CAUSES[key].after, tmp_path)
