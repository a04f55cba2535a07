"""Guards that call torch's helpers are classified by what they check."""

import pytest

from ctrace.inspector.facts.findings import Cause, CauseKind
from ctrace.inspector.facts.guard_facts import UnmetGuard
from ctrace.inspector.findings.recompiles.recompile_causes import cause_of
from ctrace.inspector.findings.recompiles.special_cases import CauseFacts, case_of
from ctrace.inspector.knowledge.advice import advice_on_cause


@pytest.mark.parametrize(
    ("guard", "now", "kind", "case", "subject", "was", "then"),
    [
        ("___tuple_iterator_len(L['it']) == 3", "2", "length", "iterator", "items left in it", "3", "2"),
        ("___list_reverseiterator_len(L['it']) == 3", "2", "length", "iterator", "items left in it", "3", "2"),
        (
            "___normalize_count_iter(L['self'].n) == (0, 1)",
            "(5, 1)",
            "argument_value",
            "iterator",
            "position of self.n",
            "(0, 1)",
            "(5, 1)",
        ),
        (
            "___normalize_range_iter(L['r']) == (0, 3, 1)",
            None,
            "argument_value",
            "iterator",
            "position of r",
            "(0, 3, 1)",
            None,
        ),
        ("___cow_tensor_matches(L['x'], False)", "tensor", "other", "lazy_copy", "x is a lazy copy", "False", "True"),
        ("___cow_tensor_matches(L['x'], True)", None, "other", "lazy_copy", "x is a lazy copy", "True", "False"),
        (
            "L['s'] == ___get_current_stream(torch.device('cuda'))",
            "<torch.Stream>",
            "global_state",
            "stream",
            "s is the current stream",
            "True",
            "False",
        ),
        (
            "L['s'] != ___get_current_stream(torch.device('cuda'))",
            None,
            "global_state",
            "stream",
            "s is the current stream",
            "False",
            "True",
        ),
    ],
)
def test_it_is_named_for_what_it_checks(
    guard: str, now: str | None, kind: str, case: str, subject: str, was: str, then: str | None
) -> None:
    unmet = UnmetGuard(guard, now)
    cause = cause_of(unmet)
    assert cause == Cause(CauseKind(kind), subject, was, then)
    assert case_of(CauseFacts.of(cause, unmet)) == case
    assert "___" not in advice_on_cause(kind, case).about(cause.subject).why


def test_an_unknown_helper_stays_as_it_is() -> None:
    cause = cause_of(UnmetGuard("___something_new(L['x'], 3)"))
    assert (cause.kind, cause.subject) == ("other", "___something_new(x, 3)")
