"""Advice of the tables, where the run itself contradicts it."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.rules.general import known_fixes, last_resort
from ctrace.inspector.facts.session import Coverage
from tests.inspector.diagnosis.scenes import broken, ran, scene

FIX = "Raise before the compiled region."


@pytest.mark.parametrize(
    ("line", "is_mistaken"),
    [("return x.shape[0].view(1)", True), ("raise ValueError(x)", False), ("with self.kept(): x.view(1)", False)],
)
def test_dynamo_is_mistaken_about_an_exception_that_eager_does_not_raise(line, is_mistaken):
    text = f"import torch\n\ndef forward(self, x):\n    {line}\n"
    run = ran(text, broken(4, "GB0088", expression="x.shape[0].view(1)", fix=FIX))
    (found,) = known_fixes(scene(run))
    assert found.text.startswith("net.py:4: Not known what to change: Dynamo finds that") == is_mistaken
    (unmeasured,) = known_fixes(scene(replace(run, coverage=Coverage())))
    assert unmeasured.text == f"net.py:4: {FIX}"


@pytest.mark.parametrize(
    ("hint", "is_shown"),
    [
        ("Write x as y.", True),
        ("Your code may result in an error when running in eager. Please double check that your code works.", False),
        ("This graph break is fundamental - it is unlikely that Dynamo will ever be able to trace through.", False),
        ("This is likely to be a Dynamo bug. Please report an issue to PyTorch.", False),
    ],
)
def test_a_hint_of_torch_that_names_no_change_is_no_advice(hint: str, is_shown: bool):
    run = ran("def forward(x):\n    return next(x)\n", broken(2, "GB9999", fix=hint, torch_hint=True, called=""))
    (found,) = last_resort(scene(run))
    assert (hint in found.text) is is_shown
    assert ("Not known" in found.text) is not is_shown
