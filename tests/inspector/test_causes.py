"""From an unmet guard, in torch's words, to a cause. The texts are those of torch 2.13."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.causes import cause_of, check_order
from ctrace.inspector.guard_events import UnmetGuard
from ctrace.inspector.model import Cause
from tests.helpers import CAUSE_KINDS, fuzzing

ON_A_PARAMETER = (
    ". Guard failed on a parameter, consider using torch._dynamo.config.force_parameter_static_shapes = False "
    "to allow dynamism on parameters."
)
NO_TENSOR = "expected type of 'L['m']' to be a tensor type, ' but found "


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
        (
            "tensor 'L['x']' Tensor device index mismatch. Expected device index to be 0, actual 1",
            "device", "x.device.index", "0", "1",
        ),
        (
            f"tensor 'L['w']' size mismatch at index 0. expected 2, actual 3{ON_A_PARAMETER}",
            "size", "w.size(0)", "2", "3",
        ),
        (
            f"tensor 'L['w']' size mismatch at index 0. expected 2, actual 1{ON_A_PARAMETER}",
            "zero_one", "w.size(0)", "2", "1",
        ),
    ],
)  # fmt: skip
def test_tensors(guard: str, kind: str, subject: str, was: str, now: str):
    assert cause_of(UnmetGuard(guard), None) == Cause(kind, subject, was, now)


@pytest.mark.parametrize(
    ("end", "was", "now"), [("0", "False", "True"), ("1", "True", "False"), (f"1{ON_A_PARAMETER}", "True", "False")]
)
def test_requires_grad(end: str, was: str, now: str):
    guard = UnmetGuard(f"tensor 'L['x']' requires_grad mismatch. expected requires_grad={end}")
    assert cause_of(guard, None) == Cause("requires_grad", "x.requires_grad", was, now)


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
        ("GLOBAL_STATE changed: autocast(cpu)_enabled", None, "autocast", "autocast(cpu)_enabled", None),
        ("L['y'].size()[0] == L['x'].size()[0]", "9", "duck_shape", "y.size(0)", "x.size(0)"),
        ("G['f'].__closure__[0].cell_contents == 0.5", "1.5", "closure_value", "closure variable 0", "0.5"),
        ("L['x'].size()[0] == 1", "8", "zero_one", "x.size(0)", "1"),
        ("L['d']['a b'].size()[0] == 4", "8", "size", "d['a b'].size(0)", "4"),
        ("L['self'].training_steps == 3", "4", "attribute_value", "self.training_steps", "3"),
        ("L['self'].CFG['k'] == 3", "4", "attribute_value", "self.CFG['k']", "3"),
        ("L['x'].size()[0] < L['y'].size()[0]", "9", "range", "x.size(0)", "less than y.size(0)"),
        ("L['x'].size()[0] == 2*L['y'].size()[0]", "9", "range", "x.size(0)", "2*y.size(0)"),
        ("L['x'].size()[0] != 5", "5", "range", "x.size(0)", "not 5"),
        ("L['x'].size()[0] != L['y'].size()[0]", "5", "range", "x.size(0)", "not y.size(0)"),
        ("(L['x'].size()[0] % 8) == 0", "1", "range", "(x.size(0) % 8)", "0"),
        ("L['x'].size()[1]*L['x'].size()[0] > 20", "9", "range", "x.size(1)*x.size(0)", "more than 20"),
        ("L['f'] > 1.5", "1.0", "range", "f", "more than 1.5"),
        ("L['f'] >= 1.5", "1.0", "range", "f", "1.5 or more"),
        ("16 <= L['n']", "10", "range", "n", "16 or more"),
    ],
)  # fmt: skip
def test_expressions(guard: str, now: str | None, kind: str, subject: str, was: str | None):
    assert cause_of(UnmetGuard(guard, now), None) == Cause(kind, subject, was, now)


@pytest.mark.parametrize(
    ("guard", "kind", "subject"),
    [
        ("2 <= L['x'].size()[0] <= 10", "range", "x.size(0)"),
        ("15 <= L['x'].size()[0]", "range", "x.size(0)"),
        ("L['x'].size()[0] <= 10", "range", "x.size(0)"),
        (f"{NO_TENSOR}<class 'NoneType'>", "none", "m"),
        (f"{NO_TENSOR}<class 'torch.nn.parameter.Parameter'>", "type", "m"),
        ("not G['CACHE']", "length", "CACHE"),
        ("list(dict.keys(L['d']))[0] == 'a'", "key_order", "d"),
        ("___dict_contains('a', L['d'])", "key_order", "d"),
        ("not ___dict_contains('a', L['d'])", "key_order", "d"),
        ("L['x'] is L['y']", "aliasing", "x"),
        ("Duplicate tensor found where not expected!", "aliasing", ""),
        ("getattr failed on source L['o']", "attribute_value", "o"),
    ],
)
def test_the_rest(guard: str, kind: str, subject: str):
    cause = cause_of(UnmetGuard(guard, "20"), None)
    assert cause.kind == kind
    assert subject in cause.subject
    assert not any(word in cause.subject for word in ("L['", "<="))


def test_a_container_was_empty():
    guard = UnmetGuard("not L['self'].cache", "builtins.list")
    assert cause_of(guard, 7) == Cause("length", "len(self.cache)", "0", "1 or more", 7)


@pytest.mark.parametrize("low", ["2 <= L['x'].size()[0]", "L['x'].size()[0] >= 2", "2 <= L['x'].size()[0] <= 10"])
def test_torch_itself_sets_sizes_of_0_and_1_apart(low: str):
    cause = cause_of(UnmetGuard(low, "1"), 12)
    assert (cause.kind, cause.subject, cause.line) == ("zero_one", "x.size(0)", None)


@pytest.mark.parametrize(
    ("guard", "now", "was"),
    [
        ("2 <= L['x'].size()[0] <= 10", "20", "2 to 10"),
        ("15 <= L['x'].size()[0]", "1", "15 or more"),
        ("L['x'].size()[0] <= 10", "20", "10 or less"),
    ],
)
def test_bounds_come_from_a_line_of_the_users(guard: str, now: str, was: str):
    assert cause_of(UnmetGuard(guard, now), 12) == Cause("range", "x.size(0)", was, now, 12)


def test_a_name_of_an_enclosing_function_is_no_argument():
    guard = UnmetGuard("L['rate'] == 0.5", "1.5")
    assert cause_of(guard, None, {"rate"}) == Cause("closure_value", "rate", "0.5", "1.5")
    assert cause_of(guard, None, {"x"}).kind == "argument_value"


IN_TORCHS_ORDER = (
    f"{NO_TENSOR}<class 'NoneType'>",
    "tensor 'L['x']' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(SparseCPU)",
    "tensor 'L['x']' dtype mismatch. expected Float, actual Double",
    "tensor 'L['x']' Tensor device index mismatch. Expected device index to be 0, actual 1",
    "tensor 'L['x']' requires_grad mismatch. expected requires_grad=0",
    "tensor 'L['x']' rank mismatch. expected 1, actual 2",
    "tensor 'L['x']' size mismatch at index 0. expected 4, actual 8",
    "tensor 'L['x']' stride mismatch at index 0. expected 6, actual 1",
    "L['n'] == 5",
)


@pytest.mark.parametrize(
    ("earlier", "later"),
    list(itertools.pairwise(IN_TORCHS_ORDER)),
    ids=["type", "dispatch_keys", "dtype", "device", "requires_grad", "rank", "size", "stride"],
)
def test_torch_checks_a_tensors_properties_in_order(earlier: str, later: str):
    assert check_order(UnmetGuard(earlier)) < check_order(UnmetGuard(later))


def test_all_that_is_no_property_of_a_tensor_is_checked_alike():
    assert check_order(UnmetGuard("L['n'] == 5")) == check_order(UnmetGuard("GLOBAL_STATE changed: grad_mode"))


@pytest.mark.parametrize("guard", ["", "nobody has seen this", "___some_new_check(L['x'])"])
def test_a_guard_that_nobody_knows_is_told_as_it_is(guard: str):
    assert cause_of(UnmetGuard(guard), None) == Cause("other", guard)


def test_a_guard_that_nobody_knows_has_a_line():
    assert cause_of(UnmetGuard(""), 3) == Cause("other", "", line=3)


def test_the_line_is_that_of_the_users_code():
    assert cause_of(UnmetGuard("L['n'] == 5", "6"), 12).line == 12


def test_a_tensor_is_no_matter_of_one_line():
    assert cause_of(UnmetGuard("tensor 'L['x']' rank mismatch. expected 1, actual 2"), 12).line is None


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
    assert cause_of(UnmetGuard("".join(pieces)), None).kind in CAUSE_KINDS
