"""Advice on code that works in eager, and raises when it is compiled."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import diagnose, planned, trials
from ctrace.inspector.diagnosis.sentences import checked
from ctrace.inspector.errors import telling_line
from ctrace.inspector.facts.diagnosis import Counts
from ctrace.inspector.facts.scenario_facts import Outcome
from ctrace.inspector.facts.session import Failure, FailurePhase, Function, Scenario, Session
from ctrace.inspector.facts.trial import Part, Trial, Tried

FILE = "/home/user/model.py"
TEXT = "import torch\n\n\ndef forward(self, x, index):\n    {}\n    return x\n"
BYTES = "got RuntimeError('tensors used as indices must be long, int, byte or bool tensors'), dtype=torch.uint8)"


def failed(statement: str, message: str = "got RuntimeError('no such size')") -> Session:
    failure = Failure(FailurePhase.RUN, "TorchRuntimeError", message, FILE, 5)
    scenarios = (Scenario("base", calls=1, outcome=Outcome.COMPILE_FAILED),)
    return Session(failure=failure, scenarios=scenarios, listings={FILE: TEXT.format(statement)})


def changed(found: Session) -> list[str]:
    return [each.trial.edits[0].text.strip() for each in planned(found) if each.trial is not None]


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("y = x.expand(3)", "y = torch.compiler.disable(lambda: x.expand(3))()"),
        ("self.y = x + 1", "self.y = torch.compiler.disable(lambda: x + 1)()"),
        ("return x[index]", "return torch.compiler.disable(lambda: x[index])()"),
        ("x[..., 0] = x.sum()", "torch.compiler.disable(lambda: x.__setitem__((..., 0), x.sum()))()"),
        ("x[index] = 1", "torch.compiler.disable(lambda: x.__setitem__(index, 1))()"),
    ],
)
def test_a_statement_that_raises_is_tried_in_eager(statement: str, line: str) -> None:
    assert changed(failed(statement)) == [line]


@pytest.mark.parametrize(
    "statement",
    ["x[0:1] = 1", "x += 1", "y = super().forward(x)", "y = (z := x + 1) * z"],
)
def test_what_means_something_else_in_a_lambda_stays(statement: str) -> None:
    assert changed(failed(statement)) == []


def test_a_mask_of_bytes_becomes_one_of_booleans() -> None:
    assert changed(failed("x[index] = x[index] * 2", BYTES))[0] == "x[index.bool()] = x[index.bool()] * 2"
    assert not any(".bool()" in each for each in changed(failed("x[index] = 2")))


def test_a_line_that_raises_in_eager_too_is_not_to_be_moved_there() -> None:
    found = failed("y = x.expand(3)")
    assert "Move the line" in diagnose(found).advice[0].text
    (candidate,) = planned(found)
    assert candidate.trial is not None
    refuted = Tried(candidate.trial, None, 1.0, error="RuntimeError")
    text = diagnose(
        Session(failure=found.failure, scenarios=found.scenarios, listings=found.listings, trials=(refuted,))
    )
    assert "Not known what to change" in text.advice[0].text
    helped = Tried(candidate.trial, Counts(2, 1, 0), 1.0)
    best = diagnose(
        Session(failure=found.failure, scenarios=found.scenarios, listings=found.listings, trials=(helped,))
    ).advice[0]
    assert best.checked
    assert "torch.compiler.disable(lambda: x.expand(3))()" in best.text


KIT = "/env/lib/python3.11/site-packages/kit/net.py"
CALLER = (
    "import torch\nfrom kit import Quantize, quantize\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n        self.vq = Quantize(4)\n\n    def forward(self, x):\n"
    "        q, loss = self.vq(x)\n        return q + loss\n"
)
BACKEND = "backend='inductor' raised:\nAssertionError: Node view was invalid\n\nSet TORCHDYNAMO_VERBOSE=1"


def failed_in_package(text: str) -> Session:
    failure = Failure(FailurePhase.RUN, "BackendCompilerFailed", BACKEND, KIT, 7)
    scenarios = (Scenario("base", calls=1, outcome=Outcome.COMPILE_FAILED),)
    parts = (Part("model", "Net", FILE, 10, 12), Part("model.vq", "Quantize", KIT, 20, 30))
    return Session(failure=failure, scenarios=scenarios, listings={FILE: text}, parts=parts)


def test_the_users_call_of_a_package_that_raises_is_tried_in_eager() -> None:
    (candidate,) = planned(failed_in_package(CALLER))
    assert candidate.trial is not None
    assert [each.text.strip() for each in candidate.trial.edits] == [
        "q, loss = torch.compiler.disable(lambda: self.vq(x))()"
    ]
    assert "raises AssertionError (Node view was invalid)" in candidate.text
    called = CALLER.replace("self.vq(x)", "quantize(x)")
    assert "lambda: quantize(x)" in planned(failed_in_package(called))[0].text
    assert not planned(failed_in_package(CALLER.replace("self.vq(x)", "self.other(x)")))


TORCH = "/env/lib/python3.11/site-packages/torch/_inductor/pattern_matcher.py"
MIXED = (
    "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        order = torch.randperm(4)\n"
    "        return self.net(x[order])\n\n\ndef inputs():\n    return (torch.randn(4, 8),)\n"
)


def test_of_torch_itself_only_a_function_that_the_model_called_is_kept_out() -> None:
    failure = Failure(FailurePhase.RUN, "BackendCompilerFailed", BACKEND, TORCH, 7)
    found = Session(
        failure=failure,
        scenarios=(Scenario("base", calls=1, outcome=Outcome.COMPILE_FAILED),),
        listings={FILE: MIXED},
        parts=(Part("model", "Net", FILE, 5, 7), Part("model.net", "Conv2d", TORCH, 20, 30)),
        functions=(Function("Net.forward", FILE, 5),),
    )
    (candidate,) = planned(found)
    assert candidate.trial is not None
    assert [(each.line, each.text.strip()) for each in candidate.trial.edits] == [
        (6, "order = torch.compiler.disable(lambda: torch.randperm(4))()")
    ]
    assert candidate.text.startswith("model.py:6: keep this call out of the graph: ")


def test_of_a_long_message_the_first_sentence_is_said() -> None:
    message = "got RuntimeError('Not all found in match.kwargs. Perhaps one is unused?')"
    text = diagnose(failed("y = x.expand(3)", message)).advice[0].text
    assert "raises RuntimeError (Not all found in match.kwargs) when it is compiled" in text


def test_without_a_trial_the_failure_still_says_what_to_do_at_the_call() -> None:
    text = diagnose(failed_in_package(CALLER)).advice[0].text
    assert text.startswith("net.py:7: ")
    assert "keep your call of it out of the graph with torch.compiler.disable" in text


def test_a_trial_of_a_run_that_raised_goes_through_the_backend_and_counts_only_if_it_does_not_raise() -> None:
    found = failed_in_package(CALLER)
    asked: list[bool] = []

    def attempt(_trial: Trial, through_backend: bool) -> Session:
        asked.append(through_backend)
        return found

    (refuted,) = trials(found, attempt)
    assert asked == [True]
    assert refuted.counts is None
    assert refuted.error == "BackendCompilerFailed: backend='inductor' raised: AssertionError: Node view was invalid"
    helped = replace(found, trials=(Tried(refuted.trial, Counts(3, 2, 0), 1.0, calls=10),))
    best = diagnose(helped).advice[0]
    assert checked(best) == "checked: 10 calls no longer raise"  # the run's own counts end where it raised
    assert not any(each.checked for each in diagnose(replace(found, trials=(refuted,))).advice)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("no such size\nsecond line", "no such size"),
        ("\n\n  no such size", "no such size"),
        (BACKEND, "backend='inductor' raised: AssertionError: Node view was invalid"),
        ("RuntimeError: \nCUDA error: no device", "RuntimeError: CUDA error: no device"),
        ("in kit:", "in kit:"),
        ("", ""),
    ],
)
def test_the_line_that_tells_is_kept(message: str, line: str) -> None:
    assert telling_line(message) == line
