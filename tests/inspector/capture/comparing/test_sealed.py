"""Hidden state of generators, iterators, files and arrays: seen, and restored where that is possible."""

import array
import collections
import contextvars
import ctypes
import functools
import io
import itertools
import queue
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from ctrace.inspector.capture.comparing.world import look_into  # noqa: E402


def numbers() -> Iterator[float]:
    while True:
        yield 1.0
        yield 2.0


def opened() -> Any:
    return io.BytesIO(b"a\nb\n")


CONTEXT = contextvars.ContextVar("CONTEXT", default=0)


class Slots:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


class Local(threading.local):
    n = 0


def tick(seen: list[int] | None = None, *, box: dict[str, int] = {"n": 0}) -> Any:  # noqa: B006
    return seen, box


def advance_tick(_value: Any) -> None:
    defaults: Any = tick.__kwdefaults__
    defaults["box"]["n"] += 1
    tick.count = 1  # type: ignore[attr-defined]


def module() -> ModuleType:
    made = ModuleType("made")
    made.n = [0]  # type: ignore[attr-defined]
    return made


def set_context(value: Any) -> None:
    value.set(value.get() + 1)


RESTORED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "random.Random": (lambda: random.Random(1), lambda it: it.random(), lambda it: it.getstate()),
    "Generator of numpy": (lambda: np.random.default_rng(1), lambda it: it.random(), lambda it: repr(it.bit_generator.state)),
    "RandomState": (lambda: np.random.RandomState(1), lambda it: it.randn(), lambda it: repr(it.get_state())),
    "Generator of torch": (torch.Generator, lambda it: torch.rand(2, generator=it), lambda it: it.get_state().tolist()),
    "ndarray": (lambda: np.zeros(2), lambda it: it.fill(1), lambda it: it.tolist()),
    "bytearray": (lambda: bytearray(2), lambda it: it.append(1), bytes),
    "memoryview": (lambda: memoryview(bytearray(2)), lambda it: it.__setitem__(0, 1), bytes),
    "array": (lambda: array.array("i", [0]), lambda it: it.append(1), list),
    "deque": (lambda: collections.deque([1, 2]), lambda it: (it.rotate(1), it.append(3)), list),
    "StringIO": (lambda: io.StringIO("ab"), lambda it: it.read(1), lambda it: it.tell()),
    "BytesIO": (opened, lambda it: it.write(b"longer than before"), lambda it: (it.getvalue(), it.tell())),
    "ctypes": (lambda: ctypes.c_int(0), lambda it: setattr(it, "value", 5), lambda it: it.value),
    "queue": (lambda: queued(), lambda it: it.get(), lambda it: it.qsize()),
    "partial": (lambda: functools.partial(len, [0]), lambda it: it.args[0].append(1), lambda it: len(it.args[0])),
    "bound method": (lambda: [0].append, lambda it: it(1), lambda it: len(it.__self__)),
    "context variable": (lambda: CONTEXT, set_context, lambda it: it.get()),
    "slots": (Slots, lambda it: setattr(it, "n", 1), lambda it: it.n),
    "thread-local": (Local, lambda it: setattr(it, "n", 1), lambda it: it.n),
    "function": (lambda: tick, advance_tick, lambda it: (it.__kwdefaults__["box"]["n"], hasattr(it, "count"))),
    "module": (module, lambda it: it.n.append(1), lambda it: it.n.copy()),
}  # fmt: skip


def queued() -> Any:
    made: queue.Queue[int] = queue.Queue()
    made.put(1)
    return made


@pytest.mark.parametrize("case", RESTORED)
def test_it_is_restored(case: str) -> None:
    make, change, read = RESTORED[case]
    value = make()
    before = look_into(value=value)
    first = read(value)
    change(value)
    assert read(value) != first
    assert before.restore() == ()
    assert read(value) == first
    assert before.restore() == ()


@pytest.mark.parametrize(
    "make",
    [
        itertools.count,
        lambda: itertools.cycle([1, 2]),
        lambda: iter([1, 2, 3]),
        lambda: iter({"a": 1, "b": 2}),
        lambda: iter(range(3)),
        lambda: enumerate("abc"),
        lambda: map(abs, [1, 2]),
        lambda: zip([1, 2], [3, 4], strict=True),
        numbers,
        lambda: (each for each in iter([1, 1, 1])),
        lambda: itertools.chain([1], [2]),
    ],
)
def test_an_iterator_that_moved_is_reported(make: Callable[[], Any]) -> None:
    value = make()
    before = look_into(value=value)
    assert before.restore() == ()
    next(value)
    assert set(before.restore()) == {"value"}


def test_a_file_that_is_only_read_is_restored(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("1\n2\n")
    with path.open() as file, path.open("r+") as written:
        before = look_into(file=file, written=written)
        assert file.readline() == "1\n"
        assert before.restore() == ()
        assert file.readline() == "1\n"
        written.readline()
        assert "written" in before.restore()


def test_what_draws_is_told_from_what_moves() -> None:
    own, state = random.Random(1), [0]
    before = look_into(own=own, state=state)
    state.append(1)
    assert before.drawn() == ()
    own.random()
    assert before.drawn() == ("own",)


def test_a_cache_that_grew_is_told_and_stays() -> None:
    cached = functools.lru_cache(abs)
    before = look_into(cached=cached)
    cached(-1)
    assert before.remembered() == ("cached",)
    assert before.restore() == ()
    assert cached.cache_info().currsize == 1


def test_a_tensor_changed_without_its_version_is_restored() -> None:
    value = torch.tensor([float("nan"), 1.0])
    before = look_into(value=value)
    assert before.restore() == ()
    value.data.add_(1)
    assert before.restore() == ()
    assert value[1] == 1


class Frozen(type):
    def __setattr__(cls, name: str, value: Any) -> None:
        raise ImportError("frozen")


def test_a_metaclass_that_forbids_changes_is_passed_over() -> None:
    made: Any = Frozen("Made", (), {"k": 1})
    before = look_into(value=made())
    type.__setattr__(made, "k", 2)
    assert before.restore() == ()
    assert made.k == 1


def test_what_cannot_be_restored_is_reported() -> None:
    value = np.zeros(2)
    before = look_into(value=value)
    value += 1
    value.flags.writeable = False
    assert before.restore() == ("value",)
