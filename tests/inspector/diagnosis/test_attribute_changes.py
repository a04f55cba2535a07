"""What a program carries out for a piece of advice: statements and patches that run as they are."""

from typing import Any

import pytest

from ctrace.inspector.diagnosis.attribute_changes import apply_of, unified
from ctrace.inspector.diagnosis.rules import RULES
from ctrace.inspector.facts.diagnosis import Apply, ApplyKind
from ctrace.inspector.facts.trial import LineEdit, Marked, Trial

FILE = "/home/me/net.py"
TEXT = "import torch\n\n\ndef forward(x):\n    print(x)\n    return x\n"
EDIT = LineEdit(FILE, 5, "    pass", "print(x)")


def made(trial: Trial) -> Apply:
    found = apply_of(trial, {FILE: TEXT})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("trial", "kind", "text"),
    [
        (Trial(settings=(("allow_rnn", True),)), ApplyKind.SETTING, "torch._dynamo.config.allow_rnn = True"),
        (Trial(dynamic=True), ApplyKind.ARGUMENT, "dynamic=True"),
        (
            Trial(calls=(("set_experts_implementation", "batched_mm"),)),
            ApplyKind.PLACE,
            'model.set_experts_implementation("batched_mm")\nmodel = torch.compile(model)',
        ),
        (
            Trial(ignored=("logging:Logger.info",)),
            ApplyKind.SETTING,
            "import logging\ntorch._dynamo.config.ignore_logging_functions.add(logging.Logger.info)",
        ),
    ],
)
def test_a_setting_an_argument_and_a_call(trial: Trial, kind: ApplyKind, text: str):
    found = made(trial)
    assert (found.kind, found.text, found.file) == (kind, text, None)


def test_an_edit_is_a_diff_of_its_file():
    found = made(Trial(edits=(EDIT,)))
    assert (found.kind, found.file, found.line) == (ApplyKind.PATCH, FILE, 5)
    assert "-    print(x)\n+    pass\n" in found.text


def test_settings_beside_an_edit_go_to_the_end_of_its_file():
    found = made(Trial(settings=(("allow_rnn", True),), edits=(EDIT,)))
    assert found.kind is ApplyKind.PATCH
    assert "+import torch._dynamo\n+torch._dynamo.config.allow_rnn = True\n" in found.text


def test_changes_of_two_files_are_no_single_patch():
    other = LineEdit("/home/me/other.py", 1, "pass")
    assert apply_of(Trial(edits=(EDIT, other)), {FILE: TEXT, other.file: "x = 1\n"}) is None
    assert apply_of(Trial(edits=(EDIT,)), {}) is None, "the text is not known"
    assert apply_of(Trial(), {}) is None


class _Torch:
    """Stands for torch: notes how it is used."""

    class Tensor:
        def __init__(self, *shape: int) -> None:
            self.shape = shape

        def dim(self) -> int:
            return len(self.shape)

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self._dynamo = self

    def compile(self, model: Any, **arguments: Any) -> Any:
        self.seen.append(("compile", arguments))
        return model

    def mark_dynamic(self, value: Any, dim: int) -> None:
        self.seen.append(("mark", value.shape, dim))


def test_marks_are_set_before_each_call():
    torch = _Torch()
    names: dict[str, Any] = {"torch": torch, "model": lambda x, y=None: (x, y)}
    exec(made(Trial(marked=(Marked("x", 1), Marked("y", 0)), dynamic=False)).text, names)
    first = torch.Tensor(2, 3)
    assert names["model"](first) == (first, None)
    names["model"](first, y=torch.Tensor(1))
    assert torch.seen == [("compile", {"dynamic": False}), ("mark", (2, 3), 1), ("mark", (2, 3), 1)]


def test_a_diff_of_equal_texts_is_empty():
    assert unified(TEXT, TEXT, FILE) == ""


def test_each_rule_has_a_name_of_its_own():
    names = [each.__name__ for each in RULES]
    assert len(set(names)) == len(names)
