"""The cache of compiled kernels, without its keys, which need torch."""

import os
import random
import zlib
from pathlib import Path

import pytest

from ctrace.inspector.features.gpus.child.compiling import cache as compilecache
from ctrace.inspector.features.gpus.child.compiling.cache import CompileCache
from ctrace.inspector.knowledge.gpus.table import gpu_named

KEYS = ["aa" * 32, "ab" * 32, "bb" * 32]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompileCache:
    monkeypatch.setenv("CTRACE_CACHE_DIR", str(tmp_path))
    return CompileCache(gpu_named("h100"))


def test_what_was_put_is_there_until_it_is_damaged(cache: CompileCache, tmp_path: Path) -> None:
    assert cache.get(KEYS[0]) is None
    cache.put(KEYS[0], {"records": [["built", {"kernel": "k"}]], "refused": [], "error": ""})
    assert cache.get(KEYS[0]) == {"records": [["built", {"kernel": "k"}]], "refused": [], "error": ""}
    (file,) = (each for each in tmp_path.rglob("*") if each.is_file())
    file.write_bytes(file.read_bytes()[:-2])
    assert cache.get(KEYS[0]) is None


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[]", "{}", '{"records": 1, "refused": [], "error": ""}', '{"records": [[1, 2]], "refused": [], "error": ""}',
     '{"records": [], "refused": ["x"], "error": ""}', '{"records": [], "refused": [], "error": 1}', " " * (1 << 29)],
    ids=["deep", "list", "empty", "records", "record", "refused", "error", "bomb"],
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
        cache.put(key, {"records": [], "refused": [], "error": random.Random(7).randbytes(500).hex()})
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
