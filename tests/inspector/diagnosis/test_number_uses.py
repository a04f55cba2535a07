"""Numbers that torch takes only as numbers: no advice puts a tensor in their place."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.diagnosis.number_uses import ASKS_FOR_TENSOR, number_use
from ctrace.inspector.facts.diagnosis import Counts
from ctrace.inspector.facts.findings import Advice, Cause, CauseKind, Recompile
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.knowledge.torch_ops import number_arguments
from tests.inspector.diagnosis.scenes import FILE, ran, scene, with_trial

HEAD = "import torch\nimport torch.nn.functional as F\nclass Net(torch.nn.Module):\n    def forward(self, x):\n"
FIX = "Keep `self.drop` in a tensor, or compile with dynamic=True, which makes the float dynamic from the start."


def changed(body: str, kind: CauseKind = CauseKind.ATTRIBUTE_VALUE, subject: str = "self.drop") -> Session:
    cause = Cause(kind, subject, "0.1", "0.2", file=FILE, line=5, fix=FIX, advice=Advice())
    recompile = Recompile("0/1", "forward", FILE, 4, False, (cause,))
    return ran(f"{HEAD}        {body}\n        return x\n", recompiles=(recompile,))


@pytest.mark.parametrize(
    ("body", "argument"),
    [
        ("x = F.dropout(x, p=self.drop, training=True)", "p"),
        ("x = torch.nn.functional.dropout(x, self.drop)", "p"),
        ("p = self.drop; x = F.dropout(x, 2 * p)", "p"),
        ("x = F.leaky_relu(x, negative_slope=self.drop)", "negative_slope"),
        ("x = F.layer_norm(x, (4,), None, None, self.drop)", "eps"),
        ("x = x.narrow(self.drop, 0, 1)", "dim"),
        ("x = x * self.drop", None),
        ("x = torch.lerp(x, x, self.drop)", None),  # it has an overload for a tensor
        ("x = x.clamp(max=self.drop)", None),
        ("x = self.dropout(x, p=self.drop)", None),  # a method of the model
        ("x = F.dropout(x, p=0.5) * self.drop", None),
        ("x = F.dropout(x, p=0.5 if self.drop else 0.1)", None),
    ],
)
def test_the_schema_decides_what_takes_no_tensor(body: str, argument: str | None):
    run = scene(changed(body))
    use = number_use(run, run.causes[0])
    assert (use.argument if use is not None else None) == argument


def test_no_advice_asks_for_a_tensor_where_torch_takes_none():
    session = changed("x = F.dropout(x, p=self.drop)")
    (only,) = diagnose(session).advice
    assert not ASKS_FOR_TENSOR.search(only.text)
    assert only.text.startswith("net.py:5: Not known how to change self.drop without a graph for each value")
    refuted = with_trial(session, Trial(dynamic=True), Counts(2, 0, 1, 90.0))
    assert "dynamic=True was tried and does not help." in diagnose(refuted).advice[0].text


def test_what_a_trial_shows_to_help_comes_first():
    session = changed("x = F.dropout(x, p=self.drop)")
    helped = with_trial(session, Trial(dynamic=True), Counts(1, 0, 0, 90.0))
    (only,) = diagnose(helped).advice
    assert only.checked
    assert "dynamic=True, which makes self.drop dynamic" in only.text


def test_a_tensor_stays_advised_where_an_op_takes_one():
    assert FIX in diagnose(changed("x = x * self.drop")).advice[0].text


@pytest.mark.thorough
def test_the_file_is_what_torch_says():
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13"):
        pytest.skip("the file is of torch 2.13")
    from tools.number_arguments import found

    named = found()
    assert named["dropout"] == {"p": 1}
    assert all(number_arguments(name) == mine for name, mine in named.items())


def test_an_integer_that_goes_to_a_size_has_the_setting_and_no_tensor():
    body = "self.width += 1; x = x.narrow(1, 0, self.width)"
    session = changed(body, subject="self.width")
    cause = replace(session.recompiles[0].causes[0], was="3", now="4")
    session = replace(session, recompiles=(replace(session.recompiles[0], causes=(cause,)),))
    (only,) = diagnose(session).advice
    assert "allow_unspec_int_on_nn_module = True" in only.text
    assert not ASKS_FOR_TENSOR.search(only.text)
