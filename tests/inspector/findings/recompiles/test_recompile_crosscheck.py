"""Torch's first reason is among the failed guards that ctrace found, or is reported."""

import pytest

from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.session.crosschecks import unexplained
from tests.support.helpers import Log, unmet

STATE = "GLOBAL_STATE changed: grad_mode. expected True, actual False"
KEYS = "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(Meta)"


def _sentences(reason: str, *found: str, **more: object) -> list[str]:
    entry = {**unmet(*found), **more}
    log = Log().compiled("0/0").recompile("0/1", entry).artifact("recompile_reasons", reason, at="0/1")
    raw = CollectedLog()
    for item in log.entries():
        raw.add(item)
    assert raw.problems == []
    return list(unexplained(raw))


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("n == 2      # return x * n  # model.py:9 in forward", "L['n'] == 2"),
        (
            "tensor 'x' size mismatch at index 0. expected 4, actual 8. Guard failed on a parameter, consider",
            "tensor 'L['x']' size mismatch at index 0. expected 4, actual 8",
        ),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=0",
         "tensor 'L['x']' requires_grad mismatch. expected False, actual True"),
        (KEYS, "tensor 'L['x']' device mismatch. expected cpu, actual meta"),
        (KEYS, "tensor 'L['x']' layout mismatch. expected strided, actual mkldnn"),
        ("GLOBAL_STATE changed: grad_mode num_threads ", STATE),
        ('Duplicate tensors found: ["x", "y"]', "L['x'] is not L['y']"),
        ("_dynamo_static_indices should be absent but is present", "hasattr(L['x'], '_dynamo_static_indices') == False"),
        ("expected type of 'x' to be a tensor type, ' but found <class 'int'>",
         "expected type of 'L['x']' to be a tensor type, 'Tensor' but found <class 'int'>"),
        ("___check_obj_id(fn.__code__, 14), type=<class 'code'>  # def f",
         "___check_obj_id(L['fn'].__code__, 14), type=<class 'code'>"),
        ("'NoneType' object has no attribute 'size'", "L['n'] == 3"),
        ("Unexpected recompilation: runtime guards failed", "L['n'] == 3"),
    ],
)  # fmt: skip
def test_the_same_guard_in_other_words_is_found(reason: str, found: str):
    assert _sentences(f"0/0: {reason}", found) == []


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("n == 2", "L['k'] == 2"),
        ("tensor 'x' size mismatch at index 0. expected 4, actual 8",
         "tensor 'L['x']' size mismatch at index 1. expected 4, actual 8"),
        (KEYS, "tensor 'L['x']' dtype mismatch. expected torch.float32, actual torch.float64"),
        ("n == 2", STATE),
    ],
)  # fmt: skip
def test_another_guard_is_a_problem(reason: str, found: str):
    (sentence,) = _sentences(f"0/0: {reason}", found)
    assert "recompile 0/1" in sentence
    assert reason in sentence


def test_what_only_follows_was_found_too():
    assert (
        _sentences(
            "0/0: ___check_torch_function_mode_stack()", STATE, following=["___check_torch_function_mode_stack()"]
        )
        == []
    )


def test_an_entry_whose_guards_are_not_all_written_down_may_hold_it():
    assert _sentences("0/0: n == 2", STATE, number=61) == []


@pytest.mark.parametrize("reason", ["0/7: n == 2", "no reason", ""])
def test_what_torch_does_not_say_of_an_entry_is_not_judged(reason: str):
    assert _sentences(reason, STATE) == []
