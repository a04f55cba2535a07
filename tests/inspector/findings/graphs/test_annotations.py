"""Types as torch prints them."""

import pytest

from ctrace.inspector.findings.graphs.fx import Memory, TensorType, item_bytes, memory_of, number
from ctrace.inspector.findings.graphs.parse import annotation


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("f32[2, 16][16, 1]cpu", TensorType("f32", ("2", "16"), ("16", "1"), "cpu")),
        ("f32[][]cuda:0", TensorType("f32", (), (), "cuda:0")),
        ("bf16[2, 3]", TensorType("bf16", ("2", "3"))),
        (
            "i64[s77, Max(1, s2)][Max(1, s2), 1]cpu",
            TensorType("i64", ("s77", "Max(1, s2)"), ("Max(1, s2)", "1"), "cpu"),
        ),
        ("b8[(s77//2) + 1]", TensorType("b8", ("(s77//2) + 1",))),
        ("Parameter(f32[2][1]cpu)", TensorType("f32", ("2",), ("1",), "cpu", "Parameter")),
        ("DTensor(f32[2][1]cpu, S(0))", TensorType("f32", ("2",), ("1",), "cpu", "DTensor")),
    ],
)
def test_tensors(text: str, type_: TensorType) -> None:
    assert annotation(text) == (type_, "")


def test_symbolic_numbers() -> None:
    assert annotation("Sym(s77*2)") == (None, "s77*2")


@pytest.mark.parametrize("text", ["", "f32", "f32[2", "[2]", "f32[2][1][1]", "no type at all", "f32[2]cpu!"])
def test_anything_else(text: str) -> None:
    assert annotation(text) == (None, "")


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("f32", 4), ("bf16", 2), ("b8", 1), ("i64", 8), ("c64", 8), ("c128", 16), ("f8e4m3fn", 1), ("f4e2m1fnx2", 1),
     ("b2x4", 1), ("u16", 2), ("q", None)],
)  # fmt: skip
def test_bytes_of_an_element(dtype: str, size: int | None) -> None:
    assert item_bytes(dtype) == size


@pytest.mark.parametrize(
    ("sizes", "strides", "bytes_"),
    [
        (("2", "3"), ("3", "1"), 24),
        (("2", "3"), None, 24),
        (("2", "3"), ("0", "1"), 12),
        (("2", "0"), ("3", "1"), 0),
        ((), (), 4),
        (("2", "2"), ("100", "1"), 408),
        (("s1", "3"), ("3", "1"), 60),
        (("s2", "3"), ("3", "1"), None),
        (("2", "3"), ("s2", "1"), None),
    ],
)
def test_memory(sizes: tuple[str, ...], strides: tuple[str, ...] | None, bytes_: int | None) -> None:
    assert memory_of(TensorType("f32", sizes, strides), {"s1": "5"}).bytes == bytes_


def test_memory_says_what_it_depends_on() -> None:
    type_ = TensorType("f32", ("s77 + u0", "s77"), ("s77", "1"))
    assert memory_of(type_, {"s77": "2", "u0": "1"}) == Memory(24, ("s77", "u0"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("s1*4", 20), ("(s1//2) + 1", 3), ("Max(1, s1)", 5), ("Min(1, s1)", 1), ("-s1 % 3", 1), ("s1**2", 25), ("s9", None),
        ("1//0", None), ("9**9**9", None), ("s1.x", None), ("(((", None), ("f(1)", None), ("1" * 400, None),
        ("(" * 290, None), ("é", None), ("x\0", None),
    ],
)  # fmt: skip
def test_sizes_are_worked_out(text: str, value: int | None) -> None:
    assert number(text, {"s1": "5"}) == value
