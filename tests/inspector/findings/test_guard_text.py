"""Parsing a guard's text."""

import pytest

from ctrace.inspector.findings.guard_tree import sources_of, tensor_of, type_name

X = "L['x'].size()[0]"


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("tensor 'L['x']' size mismatch at index 0. expected 4, actual 8", (X,)),
        ("tensor 'L['x']' stride mismatch at index 1. expected 4, actual 8", ("L['x'].stride()[1]",)),
        ("tensor 'L['x']' dtype mismatch. expected torch.float32, actual torch.float64", ()),
        (f"2 <= {X} <= 6", (X,)),
        (f"({X} % 8) == 0", (X,)),
        (f"L['y'].size()[1] == {X}", ("L['y'].size()[1]", X)),
        ("2 <= G['m'].cache['a b'].size()[0]", ("G['m'].cache['a b'].size()[0]",)),
        ("L['n'] == 2", ("L['n']",)),
        ("L['n'] <= 5", ("L['n']",)),
        ("16 <= L['n']", ("L['n']",)),
        ("L['n'] != 9", ("L['n']",)),
        ("L['self'].scale == 1e-05", ("L['self'].scale",)),
        ("L['sizes'][0] == 2", ("L['sizes'][0]",)),
        ("L['mode'] == 'a'", ()),
        ("len(L['xs']) == 2", ()),
        ("L['m'] is None", ()),
        ("no guard", ()),
    ],
)
def test_what_torch_might_have_left_open(text: str, sources: tuple[str, ...]):
    assert sources_of(text) == sources


def test_the_tensor_that_a_guard_is_about():
    assert tensor_of("tensor 'L['w']' size mismatch at index 0. expected 4, actual 8") == "L['w']"
    assert tensor_of("L['n'] == 2") is None


@pytest.mark.parametrize(("name", "short"), [("builtins.list", "list"), ("__main__.A", "A"), ("a.B", "a.B")])
def test_types_are_named_as_a_program_would(name: str, short: str):
    assert type_name(name) == short
