"""Which attributes of those that a change reads a caller chooses."""

import ast

import pytest

from ctrace.inspector.features.fix.repairs.mining import (
    PassedParameter,
    chosen_attributes,
    parameters_behind,
)

TEXT = """\
def scaled(h, gain):
    return h * gain

class Net(Module):
    def __init__(self, rate=2, dtype=None):
        self.rate = {}
        self.other = rate

    def forward(self, h):
        {}
        return h
"""


@pytest.mark.parametrize(
    ("value", "line", "found"),
    [
        ("rate", "h = h * self.rate", ("rate",)),
        ("rate", "k = self.rate * 2; h = h * k", ("rate",)),
        ("torch.zeros(8) if rate is None else rate", "h = h * self.rate", ("rate",)),
        ("{'a': a, 'b': a if rate else b}", "h = deepcopy(self.rate)", ("rate",)),
        ("rate", "h = h * self.rate.first", ("rate.first", "rate")),
        ("rate", "h = h * self.rate['first']", ("rate['first']", "rate")),
        ("2", "h = h * self.rate", ()),
        ("torch.zeros(rate)", "h = h * self.rate", ()),
        ("torch.zeros(8, dtype=dtype)", "h = h * self.rate", ("rate",)),
        ("torch.zeros(8, dtype=dtype).unsqueeze(0)", "h = h * self.rate", ("rate",)),
        ("torch.as_tensor(rate)", "h = h * self.rate", ("rate",)),
        ("torch.as_tensor(rate, dtype=torch.float32)", "h = h * self.rate", ()),
        ("0; self.register_buffer('rate', a if rate is None else torch.from_numpy(rate))", "h * self.rate", ("rate",)),
        ("0; self.register_buffer('rate', torch.ones(8) if rate else None)", "h * self.rate", ()),
        ("0; self.register_buffer('rate', rate)", "h = h * self.rate", ("rate",)),
        ("0; self.register_buffer('rate', torch.ones(8, dtype=dtype))", "h = h * self.rate", ("rate",)),
        ("0; self.register_buffer('rate', torch.ones(8))", "h = h * self.rate", ()),
        ("rate", "h = h * 2", ()),
    ],
)
def test_what_a_caller_chooses(value: str, line: str, found: tuple[str, ...]):
    assert chosen_attributes(ast.parse(TEXT.format(value, line)), (10,)) == found


@pytest.mark.parametrize(
    "statement",
    ["self.rate: float = rate", "self.pad, self.rate = 1, rate", "[self.rate, (self.pad, _)] = rate, (1, 2)"],
)
def test_an_attribute_that_a_statement_assigns_beside_others_or_with_a_type(statement: str):
    tree = ast.parse(TEXT.replace("self.rate = {}", statement).replace("{}", "h = h * self.rate"))
    assert chosen_attributes(tree, (10,)) == ("rate",)
    assert parameters_behind(tree, ("rate", "pad")) == {"rate": PassedParameter(False, True)}


def test_what_a_method_passes_to_a_function():
    tree = ast.parse(TEXT.format("rate", "h = scaled(h, self.rate)"))
    assert chosen_attributes(tree, (2,)) == ("rate",)


@pytest.mark.parametrize(
    ("parameter", "value", "found"),
    [
        ("rate", "rate", {"rate": PassedParameter(is_annotated=False, has_default=False)}),
        ("rate=2", "rate", {"rate": PassedParameter(is_annotated=False, has_default=True)}),
        ("*, rate", "rate", {"rate": PassedParameter(is_annotated=False, has_default=False)}),
        ("*, rate=2", "rate", {"rate": PassedParameter(is_annotated=False, has_default=True)}),
        ("other, rate: float = 2", "rate", {"rate": PassedParameter(is_annotated=True, has_default=True)}),
        ("rate", "float(rate)", {}),
        ("rate", "other", {}),
    ],
)
def test_what_a_file_says_of_a_number_that_a_caller_passes(
    parameter: str, value: str, found: dict[str, PassedParameter]
):
    text = f"class Net:\n    def __init__(self, {parameter}):\n        self.rate = {value}\n"
    assert parameters_behind(ast.parse(text), ("rate",)) == found


def test_of_two_methods_that_set_an_attribute_the_one_that_says_less_counts():
    text = "class Net:\n" + "".join(
        f"    def {name}(self, {parameter}):\n        self.rate = rate\n"
        for name, parameter in (("__init__", "rate: float = 2"), ("tune", "rate"))
    )
    assert parameters_behind(ast.parse(text), ("rate", "other")) == {"rate": PassedParameter(False, False)}
