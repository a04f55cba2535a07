"""`--input` and `--vary`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.options import (
    DTYPES,
    InputChoice,
    InputSpec,
    LiteralInput,
    TensorInput,
    Vary,
    parse_input,
    parse_vary,
)
from tests.support.helpers import fuzzing


@pytest.mark.parametrize(
    ("text", "dtype", "sizes"),
    [
        ("float32[8,128]", "float32", (8, 128)),
        ("int64[4]", "int64", (4,)),
        ("bool[ 8 , n ]", "bool", (8, "n")),
        ("bfloat16[batch,16]", "bfloat16", ("batch", 16)),
        ("float32[]", "float32", ()),
        ("float32[0]", "float32", (0,)),
        (" float32[2] ", "float32", (2,)),
    ],
)
def test_tensors(text: str, dtype: str, sizes: tuple[int | str, ...]):
    assert parse_input(text) == InputSpec(None, TensorInput(dtype, sizes))


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_dtypes(dtype: str):
    assert parse_input(f"{dtype}[1]") == InputSpec(None, TensorInput(dtype, (1,)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        ("3", 3),
        ("-3", -3),
        ("None", None),
        ("True", True),
        ("'mean'", "mean"),
        ("[1, 2]", [1, 2]),
        ("()", ()),
    ],
)
def test_literals(text: str, value: object):
    assert parse_input(text) == InputSpec(None, LiteralInput(value))


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("mask=bool[8,n]", "mask", TensorInput("bool", (8, "n"))),
        ("scale=0.5", "scale", LiteralInput(0.5)),
        ("mode='a=b'", "mode", LiteralInput("a=b")),
        ("x= int8[1]", "x", TensorInput("int8", (1,))),
    ],
)
def test_keywords(text: str, name: str, value: TensorInput | LiteralInput):
    assert parse_input(text) == InputSpec(name, value)


@pytest.mark.parametrize(
    ("text", "todo"),
    [
        ("float23[8]", "did you mean float32?"),
        ("string[8]", "known ones: float32"),
        ("float32[8;128]", 'write a tensor as "float32[8,128]"'),
        ("float32[-1]", 'write a tensor as "float32[8,128]"'),
        ("float32[8,]", 'write a tensor as "float32[8,128]"'),
        ("float32", 'write a tensor as "float32[8,128]"'),
        ("mean", "anything else as a Python literal"),
        ("", "anything else as a Python literal"),
        ("__import__('os')", "anything else as a Python literal"),
        ("x==3", "anything else as a Python literal"),
    ],
)
def test_wrong_inputs_say_what_to_write(text: str, todo: str):
    with pytest.raises(TargetError) as caught:
        parse_input(text)
    assert repr(text) in caught.value.what
    assert todo in caught.value.todo


def test_an_unhashable_key_is_a_wrong_input():
    with pytest.raises(TargetError):
        parse_input("{[]: 1}")


def test_a_size_of_thousands_of_digits_is_a_wrong_input():
    with pytest.raises(TargetError):
        parse_input(f"float32[{'9' * 5000}]")


@pytest.mark.parametrize(
    ("text", "dimension", "sizes"),
    [("0=1,2,3,8", 0, (1, 2, 3, 8)), ("1=0", 1, (0,)), (" 2 = 4 , 5 ", 2, (4, 5)), ("-1=7", -1, (7,))],
)
def test_vary(text: str, dimension: int, sizes: tuple[int, ...]):
    assert parse_vary(text) == Vary(dimension, sizes)


@pytest.mark.parametrize(
    ("text", "what", "values"),
    [
        ("dtype=float64,bfloat16", "dtype", ("float64", "bfloat16")),
        ("stride = transposed , channels_last", "stride", ("transposed", "channels_last")),
        ("mode=eval", "mode", ("eval",)),
        ("grad=off,on,inference", "grad", ("off", "on", "inference")),
        ("requires_grad=on", "requires_grad", ("on",)),
    ],
)
def test_vary_other_than_sizes(text: str, what: str, values: tuple[str, ...]):
    assert parse_vary(text) == InputChoice(what, values)


@pytest.mark.parametrize(
    ("text", "todo"),
    [
        ("dytpe=float64", "did you mean dtype?"),
        ("dtype=floaty64", "did you mean float64?"),
        ("dtype=int64", "known ones: float64"),
        ("mode=test", "known ones: train, eval"),
        ("grad=", "known ones: off, on, inference"),
        ("stride=transposed,", "known ones: transposed"),
        ("color=blue", "one of dtype"),
    ],
)
def test_a_wrong_word_to_vary_gets_a_hint(text: str, todo: str):
    with pytest.raises(TargetError, match="--vary") as caught:
        parse_vary(text)
    assert todo in caught.value.todo


@pytest.mark.parametrize("text", ["", "0", "0=", "=1,2", "x=1", "0=1,,2", "0=a", "0=-1", "0=1.5", "0=1=2"])
def test_wrong_vary_says_what_to_write(text: str):
    with pytest.raises(TargetError, match="--vary") as caught:
        parse_vary(text)
    assert '--vary "0=1,2,8"' in caught.value.todo


@fuzzing
@given(
    st.lists(
        st.sampled_from(["float32", "[", "]", ",", "=", "8", "-1", "n", " ", "'", "(", "0.5"]) | st.text(max_size=3)
    )
)
def test_inputs_are_read_or_refused(parts: list[str]):
    text = "".join(parts)
    for parse in (parse_input, parse_vary):
        try:
            parse(text)
        except TargetError as error:
            assert error.todo
