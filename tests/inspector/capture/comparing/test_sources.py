"""What a call reads that another call may read differently, with the line that reads it."""

import datetime
import functools
import json
import logging
import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from numpy.random import randn  # noqa: E402

from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic  # noqa: E402
from ctrace.inspector.capture.comparing.sources import SourceKind, Sources  # noqa: E402

NAMES = {"a", "b"}
NUMBERS = {1, 2}
RNG = np.random.default_rng(0)
IT = SimpleNamespace(names=frozenset(("x", "y")), rng=np.random.RandomState(0))


def read_by(function: Callable[[], Any]) -> list[tuple[SourceKind, str, int]]:
    """Return the sources that a function reads, with lines relative to its first."""
    sources = Sources()
    with sources.watching():
        function()
    first = function.__code__.co_firstlineno
    return [(each.kind, each.what, each.line - first) for each in sources.all() if each.file == __file__]


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda: time.time(), "time.time"),
        (lambda: perf_counter(), "time.perf_counter"),
        (lambda: datetime.datetime.now(), "datetime.now"),
        (lambda: os.urandom(1), "os.urandom"),
        (lambda: uuid.uuid4(), "uuid.uuid4"),
        (lambda: secrets.randbelow(5), "secrets.randbelow"),
        (lambda: random.SystemRandom().random(), "random.random"),
        (lambda: id(NAMES), "id"),
        (lambda: hash("a"), "hash"),
        (lambda: torch.ones(1).data_ptr(), "Tensor.data_ptr"),
        (lambda: os.getpid(), "os.getpid"),
        (lambda: open(os.devnull).close(), "open"),  # noqa: PTH123
        (lambda: threading.Thread(target=abs, args=(1,)).start(), "threading.start"),
        (lambda: np.empty(3), "numpy.empty"),
        (lambda: [each + "x" for each in NAMES], "the order of the set `NAMES`"),
        (lambda: list(IT.names), "the order of the set `IT.names`"),
        (lambda: "".join({"a", "b"}), "the order of the set `{'a', 'b'}`"),
        (lambda: next(iter({*"ab"})), "the order of the set `{*'ab'}`"),
        (lambda: [each + "x" for each in NAMES | {"c"}], "the order of the set `NAMES | {'c'}`"),
        (lambda: {"a", "b"}.pop(), "the order of the set `{'a', 'b'}`"),
        (lambda: tuple(set("ab")), "the order of the set `set('ab')`"),
        (lambda: [each + "x" for each in NAMES.union("c")], "the order of the set `NAMES.union('c')`"),
        (lambda: f"{NAMES}", "the order of the set `NAMES`"),
        (lambda: [*NAMES], "the order of the set `NAMES`"),
    ],
)
def test_what_varies(function: Callable[[], Any], what: str) -> None:
    assert (SourceKind.VARYING, what, 0) in read_by(function)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda: random.random(), "random.random"),
        (lambda: random.choice([1, 2]), "random.choice"),
        (lambda: random.Random(3).gauss(0, 1), "random.gauss"),
        (lambda: np.random.rand(), "np.random.rand"),
        (lambda: RNG.random(), "RNG.random"),
        (lambda: IT.rng.uniform(), "IT.rng.uniform"),
        (lambda: randn(2), "randn"),
    ],
)
def test_random_numbers(function: Callable[[], Any], what: str) -> None:
    assert (SourceKind.RANDOM, what, 0) in read_by(function)


@functools.lru_cache
def double(n: int) -> int:
    return 2 * n


@pytest.mark.parametrize(
    "function",
    [
        lambda: sorted(NAMES),
        lambda: (len(NAMES), "a" in NAMES, min(NAMES), any(NAMES)),
        lambda: [each + 1 for each in NUMBERS],
        lambda: [each + 1 for each in {3, 1, 2}],
        lambda: [each + "x" for each in ["a", "b"]],
        lambda: [each + "x" for each in {"a": 1}],
        lambda: logging.getLogger("x").debug("nothing"),
        lambda: json.dumps({"a": [1]}),
        lambda: torch.nn.Linear(2, 2)(torch.zeros(1, 2)).sum().item(),
        lambda: double(2),
        lambda: torch.nn.functional.relu(torch.zeros(2)),
    ],
)
def test_what_does_not_vary(function: Callable[[], Any]) -> None:
    assert [each for each in read_by(function) if each[0] in (SourceKind.VARYING, SourceKind.COMPILING)] == []


def test_a_question_about_compiling() -> None:
    assert (SourceKind.COMPILING, "torch.compiler.is_compiling", 0) in read_by(lambda: torch.compiler.is_compiling())


def test_a_line_deep_in_the_program() -> None:
    def helper() -> float:
        return time.time()

    line = helper.__code__.co_firstlineno + 1

    sources = Sources()
    with sources.watching():
        helper()
    (found,) = sources.all()
    assert (found.file, found.line, str(found)) == (__file__, line, f"time.time at test_sources.py:{line}")


def test_random_operations_of_torch() -> None:
    watched = WatchedArithmetic(sources := Sources())
    with watched.active():
        torch.nn.functional.dropout(torch.ones(4))
    assert [each.file for each in sources.all() if each.kind is SourceKind.RANDOM] == [__file__]


def test_the_program_may_profile_itself() -> None:
    import sys

    sources = Sources()
    before = sys.getprofile()
    with sources.watching():
        pass
    assert sys.getprofile() is before


def test_another_thread_of_the_program() -> None:
    ending = threading.Event()
    thread = threading.Thread(target=lambda: ending.wait(20))
    thread.start()
    try:
        assert "another thread" in {what for _, what, _ in read_by(lambda: None)}
    finally:
        ending.set()
        thread.join()
