"""Kernels of real compiles: calls, sources, lines, bytes and counts match torch's output."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ctrace.inspector.facts.kernel_facts import Kernel
from ctrace.inspector.facts.session import Session
from ctrace.inspector.log.reader import LogEntry, read
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store
from tests.integration.conftest import Command
from tests.support.places import ROOT

pytestmark = pytest.mark.integration

LINES = """\
import torch
def model(x, w):
    a = x * 2
    b = a + w
    c = torch.sin(b)
    d = c.sum(-1, keepdim=True)
    e = c / d
    f = e @ w
    return torch.relu(f)
def inputs():
    return torch.rand(8, 8), torch.rand(8, 8)
"""
OURS = {"* tmp": 3, "+ tmp": 4, ".sin()": 5, "sum_masked_reduce": 6, "/ tmp": 7, "clamp_min": 9, ".store(": (7, 9)}
"""A pattern that identifies a statement, and the statement's source line."""
GPT2 = """\
import torch, transformers
sizes = dict(n_layer=2, n_embd=32, n_head=2, vocab_size=50, n_positions=16, bos_token_id=0, eos_token_id=0)
model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
def inputs(): return {"input_ids": torch.randint(0, 50, (2, 8))}
"""
LLAMA = """\
import torch, transformers
sizes = dict(num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, vocab_size=50, max_position_embeddings=16))
def inputs(): return {"input_ids": torch.randint(0, 50, (2, 8))}
"""
TWICE = """\
import contextlib, pathlib, torch, model
from ctrace.inspector.capture import capture_hooks
@contextlib.contextmanager
def nothing(recorder, when): yield
def capture(log):
    torch._dynamo.reset()
    with capture_hooks.capturing(pathlib.Path(log), build=False):
        x, w = model.inputs()
        torch.compile(model.model)(x.requires_grad_(), w).sum().backward()
capture("ours.log")
capture_hooks.kernels = capture_hooks.fusion = nothing
capture("plain.log")
"""


def explained(ctrace: Command, name: str, *words: str) -> Session:
    done = ctrace("explain", name, *words)
    assert done.code == 0, done.err
    return load(Store(ctrace.folder / ".ctrace").load())


def generated(session: Session) -> list[Kernel]:
    return [kernel for kernel in session.kernels if kernel.language != "external"]


def check(session: Session) -> None:
    """Check the invariants of any model's kernels."""
    assert [problem.what for problem in session.problems if "kernel" in problem.what or "code of" in problem.what] == []
    for kernel in session.kernels:
        for launch in kernel.launches:
            assert launch.arguments, launch.call
            assert all(argument.name in launch.call for argument in launch.arguments if argument.tensor)
            assert launch.read is not None
    assert all(kernel.source and kernel.statements for kernel in generated(session))
    assert all(code.counted for code in session.code if generated(session))


@pytest.mark.slow
def test_each_statement_comes_from_its_line(ctrace: Command) -> None:
    ctrace.write("model.py", LINES)
    session = explained(ctrace, "model.py")
    check(session)
    found = 0
    for kernel in generated(session):
        text = kernel.source.split("\n")
        for statement in kernel.statements:
            (place,) = statement.lines
            for sign, line in OURS.items():
                if sign in text[statement.line - 1]:
                    assert int(place.rpartition(":")[2]) in (line if isinstance(line, tuple) else (line,))
                    found += 1
    assert found >= len(OURS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_kernels_of_language_models_have_lines(source: str, ctrace: Command) -> None:
    pytest.importorskip("transformers")
    ctrace.write("model.py", source)
    session = explained(ctrace, "model.py", "--train")
    check(session)
    kernels = generated(session)
    assert {kernel.stage for kernel in kernels} == {"forward", "backward"}
    assert sum(bool(kernel.lines) for kernel in kernels) >= 0.95 * len(kernels)


@pytest.mark.slow
def test_code_is_the_same_without_the_hooks(ctrace: Command) -> None:
    ctrace.write("model.py", LINES)
    ctrace.write("twice.py", TWICE)
    done = subprocess.run(
        [sys.executable, "twice.py"], cwd=ctrace.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == 0
    ours, plain = (_codes(ctrace.folder / name) for name in ("ours.log", "plain.log"))
    assert len(ours) == 2
    assert ours == plain


def _codes(log: Path) -> list[str]:
    """Return the emitted code of a log, without torch's graph numbers."""
    entries = (entry for entry in read(log) if isinstance(entry, LogEntry) and entry.kind == "inductor_output_code")
    return sorted(re.sub(r"# AOT ID: .*", "", entry.payload) for entry in entries)


@pytest.mark.slow
def test_a_store_has_the_line_of_its_value(ctrace: Command) -> None:
    ctrace.write(
        "model.py",
        "import torch\n"
        "def model(x, y):\n"
        "    shares = x / y\n"
        "    return shares.expand(2, 64, 64) @ y\n"
        "inputs = (torch.rand(1, 64, 64), torch.rand(2, 64, 64))\n",
    )
    for kernel in generated(explained(ctrace, "model.py")):
        text = kernel.source.split("\n")
        stores = [each for each in kernel.statements if ".store(" in text[each.line - 1]]
        assert stores
        assert all(place.endswith(":3") for each in stores for place in each.lines)


def test_a_call_without_a_torch_record_is_listed_too(ctrace: Command) -> None:
    ctrace.write(
        "model.py",
        "import torch\n"
        "def model(x, i, v):\n"
        "    return (x * 2).scatter_reduce(0, i[:, None].expand(8, 8), v, 'prod').sin()\n"
        "inputs = (torch.rand(16, 8), torch.arange(8), torch.rand(8, 8))\n",
    )
    session = explained(ctrace, "model.py")
    (call,) = (kernel for kernel in session.kernels if kernel.language == "external")
    assert "scatter_reduce" in call.name
    assert call.lines[0].endswith("model.py:3")
    assert session.problems == ()  # such as bytes without a kernel that moves them
