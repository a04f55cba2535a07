"""The cache of compiled kernels, without its keys, which need torch."""

import json
import os
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.facts.built import Built, KernelCode, StageTime
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.features.gpus.child import compile_kernels as compilecache
from ctrace.inspector.features.gpus.child.compile_kernels import CompileCache, CompiledKernel
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named

EMPTY: dict[str, Any] = {"built": (), "codes": (), "refused": {}, "problems": (), "error": ""}
KEYS = ["aa" * 32, "ab" * 32, "bb" * 32]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompileCache:
    monkeypatch.setenv("CTRACE_CACHE_DIR", str(tmp_path))
    return CompileCache(gpu_named("h100"))


def test_what_was_put_is_there_until_it_is_damaged(cache: CompileCache, tmp_path: Path) -> None:
    assert cache.get(KEYS[0]) is None
    built = Built(Stage.FORWARD, "k", "aa", 4, 1, True, {"XBLOCK": 8}, stage_times=(StageTime("ptx", 0.5),))
    outcome = CompiledKernel((built,), (KernelCode("aa", {"ptx": "ret;"}, {}),), {"XBLOCK=16": "no room"}, ("odd",), "")
    cache.put(KEYS[0], outcome)
    assert cache.get(KEYS[0]) == outcome
    (file,) = (each for each in tmp_path.rglob("*") if each.is_file())
    file.write_bytes(file.read_bytes()[:-2])
    assert cache.get(KEYS[0]) is None


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000, "[]", "{}", *(json.dumps({**EMPTY, name: odd}) for name, odd in (("built", 1), ("built", [{}]), ("error", 1))),
        '{"records": [], "refused": [], "error": ""}', " " * (1 << 29),
    ],
    ids=["deep", "list", "empty", "built", "kernel", "error", "old", "bomb"],
)  # fmt: skip
def test_what_nobody_put_is_made_again(text: str, cache: CompileCache, tmp_path: Path) -> None:
    file = tmp_path / "triton" / KEYS[0][:2] / KEYS[0][2:]
    file.parent.mkdir(parents=True)
    file.write_bytes(zlib.compress(text.encode(), 1))
    assert cache.get(KEYS[0]) is None


def test_what_was_not_used_for_the_longest_time_goes(
    cache: CompileCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, key in enumerate(KEYS):
        cache.put(key, CompiledKernel(**{**EMPTY, "error": random.Random(7).randbytes(500).hex()}))
        file = tmp_path / "triton" / key[:2] / key[2:]
        os.utime(file, (at, at))
    assert cache.get(KEYS[0])  # used last of all
    cache.trim()
    assert all(cache.get(key) for key in KEYS)
    size = file.stat().st_size
    os.utime(tmp_path / "triton" / KEYS[1][:2] / KEYS[1][2:], (1, 1))
    monkeypatch.setattr(compilecache, "_MOST", 3 * size - 10)
    monkeypatch.setattr(compilecache, "_ENOUGH", 2 * size + 20)
    cache.trim()
    assert [cache.get(key) is not None for key in KEYS] == [True, False, True]
