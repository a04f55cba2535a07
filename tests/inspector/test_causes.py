"""From an unmet guard, in torch's words, to a cause. The texts are those of torch 2.13."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.causes import cause_of
from ctrace.inspector.model import Cause
from tests.helpers import CAUSE_KINDS, fuzzing

ON_A_PARAMETER = (
    ". Guard failed on a parameter, consider using torch._dynamo.config.force_parameter_static_shapes = False "
    "to allow dynamism on parameters."
)
NO_TENSOR = "expected type of 'L['m']' to be a tensor type, ' but found "


def bug(*values: object, why: str) -> object:
    """Mark a case that is known to come out wrong."""
    return pytest.param(*values, marks=pytest.mark.xfail(strict=True, reason=f"causes.py: {why}"))


@pytest.mark.parametrize(
    ("guard", "kind", "subject", "was", "now"),
    [
        ("tensor 'L['x']' size mismatch at index 0. expected 4, actual 8", "size", "x.size(0)", "4", "8"),
        ("tensor 'L['x']' size mismatch at index 2. expected 4, actual 1", "zero_one", "x.size(2)", "4", "1"),
        ("tensor 'L['x']' size mismatch at index 0. expected 1, actual 0", "zero_one", "x.size(0)", "1", "0"),
        ("tensor 'L['x']' stride mismatch at index 0. expected 6, actual 1", "stride", "x.stride(0)", "6", "1"),
        ("tensor 'L['x']' rank mismatch. expected 1, actual 2", "size", "x.dim()", "1", "2"),
        ("tensor 'L['x']' dtype mismatch. expected Float, actual Double", "dtype", "x.dtype", "Float", "Double"),
        (
            "tensor 'L['s']._buffers['b']' dtype mismatch. expected Float, actual Double",
            "dtype", "s.b.dtype", "Float", "Double",
        ),
        (
            "tensor 'L['x']' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect), actual "
            "DispatchKeySet(SparseCPU, BackendSelect)",
            "dispatch_keys", "x.dispatch keys",
            "DispatchKeySet(CPU, BackendSelect)", "DispatchKeySet(SparseCPU, BackendSelect)",
        ),
        bug(
            f"tensor 'L['w']' size mismatch at index 0. expected 2, actual 3{ON_A_PARAMETER}",
            "size", "w.size(0)", "2", "3",
            why="_TENSOR takes torch's advice on parameters for part of the actual value",
        ),
        bug(
            f"tensor 'L['w']' size mismatch at index 0. expected 2, actual 1{ON_A_PARAMETER}",
            "zero_one", "w.size(0)", "2", "1",
            why="so a parameter's change to 1 is no zero_one either",
        ),
    ],
)  # fmt: skip
def test_tensors(guard: str, kind: str, subject: str, was: str, now: str):
    assert cause_of({"guard": guard}, None) == Cause(kind, subject, was, now)


@pytest.mark.xfail(strict=True, reason="causes._TENSOR: torch says no `, actual` for requires_grad")
@pytest.mark.parametrize("end", ["0", "1", f"1{ON_A_PARAMETER}"])
def test_requires_grad(end: str):
    cause = cause_of({"guard": f"tensor 'L['x']' requires_grad mismatch. expected requires_grad={end}"}, None)
    assert (cause.kind, cause.subject) == ("requires_grad", "x.requires_grad")


@pytest.mark.parametrize(
    ("guard", "now", "kind", "subject", "was"),
    [
        ("L['n'] == 5", "6", "argument_value", "n", "5"),
        ("L['mode'] == 'a == b'", "'c'", "argument_value", "mode", "'a == b'"),
        ("L['s'].step == 0", "1", "attribute_value", "s.step", "0"),
        ("L['s']._modules['m'].mode == 'a'", "'b'", "attribute_value", "s.m.mode", "'a'"),
        ("L['s'].cfg['k'] == 1.0", "2.0", "attribute_value", "s.cfg['k']", "1.0"),
        ("G['STEP'] == 0", "1", "global_value", "STEP", "0"),
        ("L['___stack0'] == 2.0", "3.0", "break_result", "the value that the broken call returned", "2.0"),
        ("L['self'].training == True", "False", "training_mode", "self.training", "True"),
        ("L['self']._modules['1'].training == True", "False", "training_mode", "self[1].training", "True"),
        ("L['m'] is None", "torch.Tensor", "none", "m", "None"),
        ("L['m'] is not None", "None", "none", "m", "None"),
        ("len(L['xs']) == 2", "3", "length", "len(xs)", "2"),
        ("len(L['d']) != 2", "3", "length", "len(d)", "2"),
        ("L['x'].size()[0] == 4", "8", "size", "x.size(0)", "4"),
        ("2 <= L['x'].size()[0]", "1", "zero_one", "x.size(0)", "2 or more"),
        ("2 <= L['x'].stride()[0]", "1", "zero_one", "x.stride(0)", "2 or more"),
        ("___check_type_id(L['o'], 9478368), type=<class '__main__.A'>", None, "type", "o", None),
        ("___check_obj_id(L['fn'], 1405957), type=<class 'function'>", None, "identity", "fn", None),
        ("___check_obj_id(L['fn'].__code__, 1405), type=<class 'code'>", None, "identity", "fn.__code__", None),
        ("GLOBAL_STATE changed: grad_mode", None, "grad_mode", "grad_mode", None),
        ("GLOBAL_STATE changed: num_threads", None, "global_state", "num_threads", None),
        bug(
            "GLOBAL_STATE changed: autocast(cpu)_enabled", None, "autocast", "autocast(cpu)_enabled", None,
            why="_GLOBAL_STATES lacks the names that torch writes, autocast(DEVICE)_enabled",
        ),
        bug(
            "L['y'].size()[0] == L['x'].size()[0]", "9", "duck_shape", "y.size(0)", "x.size(0)",
            why="`was` is left in torch's words",
        ),
        bug(
            "G['f'].__closure__[0].cell_contents == 0.5", "1.5", "closure_value", "closure variable 0", "0.5",
            why="what a global function closes over is taken for a global",
        ),
    ],
)  # fmt: skip
def test_expressions(guard: str, now: str | None, kind: str, subject: str, was: str | None):
    assert cause_of({"guard": guard, "now": now}, None) == Cause(kind, subject, was, now)


@pytest.mark.parametrize(
    ("guard", "kind", "subject"),
    [
        bug("2 <= L['x'].size()[0] <= 10", "range", "x.size(0)", why="the upper bound is a part of the name"),
        bug("15 <= L['x'].size()[0]", "range", "x.size(0)", why="the bound is taken for the subject"),
        bug("L['x'].size()[0] <= 10", "range", "x.size(0)", why="an upper bound is a size"),
        bug(f"{NO_TENSOR}<class 'NoneType'>", "none", "m", why="None where a tensor was is `other`"),
        bug(f"{NO_TENSOR}<class 'torch.nn.parameter.Parameter'>", "type", "m", why="a parameter is `other`"),
        bug("not G['CACHE']", "length", "CACHE", why="`not` of a container says that it was empty"),
        bug("list(dict.keys(L['d']))[0] == 'a'", "key_order", "d", why="the order of keys is an attribute"),
        bug("___dict_contains('a', L['d'])", "key_order", "d", why="the key is taken for the dict"),
        bug("not ___dict_contains('a', L['d'])", "key_order", "d", why="the key is taken for the dict"),
        bug("L['x'] is L['y']", "aliasing", "x", why="two names of one tensor are an identity"),
        bug("Duplicate tensor found where not expected!", "aliasing", "", why="torch's words for aliasing are `other`"),
        bug("getattr failed on source L['o']", "attribute_value", "o", why="a missing attribute is `other`"),
    ],
)
def test_the_rest(guard: str, kind: str, subject: str):
    cause = cause_of({"guard": guard, "now": "20"}, None)
    assert cause.kind == kind
    assert subject in cause.subject
    assert not any(word in cause.subject for word in ("L['", "<="))


@pytest.mark.parametrize("guard", ["", "nobody has seen this", "___some_new_check(L['x'])"])
def test_a_guard_that_nobody_knows_is_told_as_it_is(guard: str):
    assert cause_of({"guard": guard}, None) == Cause("other", guard)


def test_a_guard_without_a_text():
    assert cause_of({}, 3) == Cause("other", "", line=3)


def test_the_line_is_that_of_the_users_code():
    assert cause_of({"guard": "L['n'] == 5", "now": "6"}, 12).line == 12


def test_a_tensor_is_no_matter_of_one_line():
    assert cause_of({"guard": "tensor 'L['x']' rank mismatch. expected 1, actual 2"}, 12).line is None


PIECES = [
    "L['x']",
    "G['y']",
    ".size()[0]",
    " == ",
    " is ",
    "None",
    "2 <= ",
    " <= ",
    "10",
    "len(",
    ")",
    "tensor '",
    "' size",
]


@fuzzing
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=8))
def test_every_text_has_a_known_kind(pieces: list[str]):
    assert cause_of({"guard": "".join(pieces), "now": None}, None).kind in CAUSE_KINDS
