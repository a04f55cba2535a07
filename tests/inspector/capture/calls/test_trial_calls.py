"""Methods of a model that a trial calls first."""

import pytest

from ctrace.inspector.capture.calls.applied_trial import TrialError, prepare
from ctrace.inspector.facts.trial import Trial

CALLS = Trial(calls=(("choose", "batched"),))


class Part:
    chosen = ""

    def choose(self, name: str) -> None:
        if name != "batched":
            raise ValueError(name)
        self.chosen = name


class Whole:
    def __init__(self) -> None:
        self.part = Part()

    def modules(self) -> list[object]:
        return [self, self.part]


def test_the_first_part_that_has_the_method_is_asked():
    whole = Whole()
    prepare(whole, CALLS)
    assert whole.part.chosen == "batched"


def test_a_model_without_the_method_cannot_be_tried():
    with pytest.raises(TrialError, match="no choose"):
        prepare(object(), CALLS)


def test_a_method_that_refuses_ends_the_trial():
    with pytest.raises(TrialError, match="ValueError: other"):
        prepare(Whole(), Trial(calls=(("choose", "other"),)))
