"""Compile many small programs in one process without building code, and undo what each changes."""

import functools
import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ctrace.inspector.facts.findings import Recompile
from ctrace.inspector.facts.session import Session


@contextmanager
def _torch_as_it_was() -> Iterator[None]:
    """Start with torch's state as in a new process, and restore it afterwards.

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
        torch.set_default_device(None)
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(threads)


def run(code: str, file: Path) -> None:
    """Run a program on a device that every machine has."""
    file.write_text("import torch\n\n" + code.replace('"cuda"', '"meta"'), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("example", file)
    assert spec is not None
    assert spec.loader is not None
    with _torch_as_it_was():
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def recompiles_of(session: Session, number: int) -> list[Recompile]:
    """Return the recompiles of a program by its number in one trace: after each reset, `0/1` becomes `2.0/1`."""
    frames = [(each, each.compilation.partition("/")[0]) for each in session.recompiles]
    return [each for each, frame in frames if (int(frame.partition(".")[0]) if "." in frame else 1) == number + 1]
