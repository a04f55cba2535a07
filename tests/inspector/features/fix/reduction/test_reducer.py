"""The reducer knows nothing of torch: here a question about the text decides."""

import ast

import pytest

from ctrace.inspector.features.fix.reduction.reduced_program import Program
from ctrace.inspector.features.fix.reduction.reduction_trials import Reducer

MODEL = '''
"""A model."""
import math
import os as system
from torch import nn

BATCH, WIDTH = 8, 32

class Unused:
    pass

class Layer(nn.Module):
    """A layer."""

    def __init__(self, width: int, scale: float = 1.0) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = scale

    def forward(self, x, mask=None):
        hidden = self.linear(x) * self.scale
        if mask is not None:
            hidden = hidden + mask
        with context():
            for step in range(5):
                hidden = wanted(hidden, step, other=math.pi)
        return hidden

def inputs():
    return (rand(BATCH, WIDTH),)

layer = Layer(WIDTH, scale=2.0)
layer(*inputs())
'''


def reduced(text: str, shows, anchor: int | None = None) -> str:
    reducer = Reducer(Program.parsed(text, anchor), shows)
    reducer.run()
    assert reducer.is_complete
    return reducer.best.text


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def calls(text: str, name: str) -> list[ast.Call]:
    return [
        each
        for each in ast.walk(ast.parse(text))
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == name
    ]


def test_only_what_the_question_needs_stays():
    text = reduced(MODEL, lambda each: bool(calls(each.text, "wanted")))
    assert text in ("wanted()\n", "def f():\n    wanted()\n")


def test_a_needed_chain_of_names_stays():
    def shows(program: Program) -> bool:
        """Whether a call of `wanted` in a class's method still gets its hidden value from `linear`."""
        return "linear(" in program.text and bool(calls(program.text, "wanted")) and "class " in program.text

    text = reduced(MODEL, shows)
    assert len(text.splitlines()) <= 8
    assert "Unused" not in text
    assert "import os" not in text


def test_the_marked_statement_stays_and_is_found_at_its_line():
    anchor = line_of(MODEL, "hidden = wanted")

    def shows(program: Program) -> bool:
        (line,) = program.anchor_lines
        return "wanted(" in program.text.splitlines()[line - 1]

    reducer = Reducer(Program.parsed(MODEL, anchor), shows)
    best = reducer.run()
    (line,) = best.anchor_lines
    assert "wanted(" in best.text.splitlines()[line - 1]
    assert best.line_count <= 3


def test_another_statement_with_the_same_call_is_not_the_marked_one():
    text = "def f():\n    wanted(1)\n    wanted(2)\nf()\n"

    def shows(program: Program) -> bool:
        (line,) = program.anchor_lines
        return program.text.splitlines()[line - 1].lstrip().startswith("wanted(2")

    assert reduced(text, shows, anchor=3) == "def f():\n    wanted(2)\n"


def test_a_marked_function_keeps_its_decorators_in_its_lines():
    text = "x = 1\n\n@first\n@second\ndef f():\n    return x\n"
    assert Program.parsed(text, 5).anchor_lines == (3, 4, 5)


def test_sizes_shrink_together():
    text = "run(Linear(64, 64), rand(8, 64))\n"

    def shows(program: Program) -> bool:
        numbers = [each.value for each in ast.walk(ast.parse(program.text)) if isinstance(each, ast.Constant)]
        return len(numbers) == 4 and numbers[0] == numbers[1] == numbers[3] and "Linear(" in program.text

    assert reduced(text, shows) == "run(Linear(2, 2), rand(2, 2))\n"


def test_a_parameter_goes_with_its_arguments():
    text = "def f(a, b, c=3):\n    return wanted(b)\nf(1, 2, c=4)\n"

    def shows(program: Program) -> bool:
        """Whether the call of f binds, as in real Python."""
        space: dict[str, object] = {"wanted": lambda b: seen.append(b)}
        seen: list[object] = []
        try:
            exec(program.text, space)
        except Exception:
            return False
        return seen == [2]

    assert reduced(text, shows) in ("def f(b):\n    wanted(b)\nf(2)\n", "def f():\n    wanted(2)\nf()\n", "wanted(2)\n")


def test_a_module_without_state_becomes_a_function():
    text = "class M(Module):\n    def forward(self, x):\n        return wanted(x)\ncompiled(M(), 1)\n"

    def shows(program: Program) -> bool:
        return "def " in program.text and bool(calls(program.text, "wanted")) and bool(calls(program.text, "compiled"))

    assert "class" not in reduced(text, shows)


def test_the_best_so_far_stays_when_the_budget_is_spent():
    tries: list[Program] = []

    def is_spent() -> bool:
        return len(tries) >= 5

    def shows(program: Program) -> bool:
        tries.append(program)
        return bool(calls(program.text, "wanted"))

    reducer = Reducer(Program.parsed(MODEL), shows, is_spent=is_spent)
    best = reducer.run()
    assert not reducer.is_complete
    assert len(tries) == 5
    assert calls(best.text, "wanted")


def test_every_accepted_program_is_smaller_and_shows():
    accepted = [Program.parsed(MODEL)]

    def shows(program: Program) -> bool:
        if not calls(program.text, "wanted"):
            return False
        assert program.weight < accepted[-1].weight
        accepted.append(program)
        return True

    Reducer(accepted[0], shows).run()
    assert len(accepted) > 3


@pytest.mark.parametrize(
    "text", ["", "x = 1\n", "f'{x!r:>{width}}'\n", "match x:\n    case [1, *rest]:\n        pass\n"]
)
def test_odd_programs_end(text: str):
    assert reduced(text, lambda _program: True) in ("", "\n", text)
