"""From torch's text of a failed guard to a cause. The texts are those of torch 2.13."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.facts.findings import Cause, CauseKind
from ctrace.inspector.facts.guard_facts import UnmetGuard
from ctrace.inspector.findings.guard_tree import check_order
from ctrace.inspector.findings.recompiles.recompile_causes import cause_of
from tests.support.helpers import CAUSE_KINDS, fuzzing

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
        ("tensor 'L['x']' dtype mismatch. expected Float, actual Double", "dtype", "x.dtype", "torch.float32", "torch.float64"),
        (
            "tensor 'L['s']._buffers['b']' dtype mismatch. expected Float, actual Double",
            "dtype", "s.b.dtype", "torch.float32", "torch.float64",
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
    assert cause_of(UnmetGuard(guard)) == Cause(CauseKind(kind), subject, was, now)


@pytest.mark.parametrize(
    ("end", "was", "now"), [("0", "False", "True"), ("1", "True", "False"), (f"1{ON_A_PARAMETER}", "True", "False")]
)
def test_requires_grad(end: str, was: str, now: str):
    guard = UnmetGuard(f"tensor 'L['x']' requires_grad mismatch. expected requires_grad={end}")
    assert cause_of(guard) == Cause(CauseKind.REQUIRES_GRAD, "x.requires_grad", was, now)


@pytest.mark.parametrize(
    ("guard", "now", "kind", "subject", "was"),
    [
        ("L['n'] == 5", "6", "argument_value", "n", "5"),
        ("L['mode'] == 'a == b'", "'c'", "argument_value", "mode", "'a == b'"),
        ("L['s'].step == 0", "1", "attribute_value", "s.step", "0"),
        ("L['sizes'][0] == 2", "3", "argument_value", "sizes[0]", "2"),
        ("L['d']['a.b'] == 2", "3", "argument_value", "d['a.b']", "2"),
        ("L['o'].d['a'] == 2", "3", "attribute_value", "o.d['a']", "2"),
        ("L['s'] == {1, 2}", "{3}", "argument_value", "s", "{1, 2}"),
        ("L['n'] != 9", "9", "range", "n", "not 9"),
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
        ("___check_type_id(L['o'], 9478368), type=<class '__main__.A'>", "B", "type", "o", "A"),
        ("___check_obj_id(L['fn'], 1405957), type=<class 'function'>", None, "identity", "fn", None),
        ("___check_obj_id(L['fn'].__code__, 1405), type=<class 'code'>", None, "identity", "fn", None),
        ("list(dict.keys(L['d']))[1] == 'a'", "'b'", "key_order", "d", "'a'"),
        ("len(L['self'].state[list(dict.keys(L['self'].state))[0]]) != 0", "1", "length", "len(self.state[key 0])", "0"),
        ("utils_device.CURRENT_DEVICE == None", "cpu", "global_state", "default device", "not set"),
        ("L['b'].storage_offset() == 5", "2", "aliasing", "b.storage_offset() == 5", "True"),
        ("2 <= L['b'].storage_offset()", "0", "zero_one", "b.storage_offset()", "2 or more"),
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
    shown = "False" if kind == "aliasing" else now
    assert cause_of(UnmetGuard(guard, now)) == Cause(CauseKind(kind), subject, was, shown)


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
        ("___dict_contains('a', L['d'])", "key_order", "'a' in d"),
        ("not ___dict_contains('a', L['d'])", "key_order", "'a' in d"),
        ("L['x'] is L['y']", "aliasing", "x is y"),
        ("Duplicate tensor found where not expected!", "aliasing", ""),
        ("getattr failed on source L['o']", "attribute_value", "o"),
        ("Unexpected recompilation: runtime guards failed even though", "other", "nothing that the log shows"),
        ("Cache line invalidated because L['size'] got deallocated", "identity", "size"),
        ("not set.__contains__(L['s'], 3)", "other", "3 in s"),
    ],
)
def test_the_rest(guard: str, kind: str, subject: str):
    cause = cause_of(UnmetGuard(guard, "20"))
    assert cause.kind == kind
    assert subject in cause.subject
    assert not any(word in cause.subject for word in ("L['", "<="))


def test_a_container_was_empty():
    shown = [cause_of(UnmetGuard("not L['self'].cache", now)) for now in ("builtins.list", "3")]
    assert shown == [Cause(CauseKind.LENGTH, "len(self.cache)", "0", now) for now in ("1 or more", "3")]


@pytest.mark.parametrize("low", ["2 <= L['x'].size()[0]", "L['x'].size()[0] >= 2", "2 <= L['x'].size()[0] <= 10"])
def test_torch_itself_sets_sizes_of_0_and_1_apart(low: str):
    cause = cause_of(UnmetGuard(low, "1"))
    assert (cause.kind, cause.subject) == ("zero_one", "x.size(0)")


@pytest.mark.parametrize(
    ("guard", "now", "was"),
    [
        ("2 <= L['x'].size()[0] <= 10", "20", "2 to 10"),
        ("15 <= L['x'].size()[0]", "1", "15 or more"),
        ("L['x'].size()[0] <= 10", "20", "10 or less"),
    ],
)
def test_other_bounds_come_from_a_condition(guard: str, now: str, was: str):
    assert cause_of(UnmetGuard(guard, now)) == Cause(CauseKind.RANGE, "x.size(0)", was, now)


def test_a_name_of_an_enclosing_function_is_no_argument():
    guard = UnmetGuard("L['rate'] == 0.5", "1.5")
    assert cause_of(guard, {"rate"}) == Cause(CauseKind.CLOSURE_VALUE, "rate", "0.5", "1.5")
    assert cause_of(guard, {"x"}).kind == "argument_value"


@pytest.mark.parametrize(
    ("guard", "now", "kind", "was", "shown"),
    [
        ("L['n'] == 2", "2.5", "type", "int", "float"),
        ("L['n'] == 2", "True", "type", "int", "bool"),
        ("L['n'] == 2", "torch.Tensor", "type", "int", "torch.Tensor"),
        ("L['self'].n == 'a'", "__main__.Mode", "type", "str", "Mode"),
        ("G['n'] == 2", "None", "none", "2", "None"),
        ("L['n'] == 2", None, "argument_value", "2", None),
        ("L['t'] == (2, 3)", "builtins.list", "argument_value", "(2, 3)", "builtins.list"),
        ("___check_type_id(L['n'], 94), type=<class 'str'>", "builtins.NoneType", "none", "str", "None"),
        (f"{NO_TENSOR}<class 'NoneType'>", None, "none", "Tensor", "None"),
        (f"{NO_TENSOR}<class '__main__.Sub'>", None, "type", "Tensor", "Sub"),
    ],
)
def test_a_value_of_another_type_is_a_matter_of_its_type(guard: str, now: str | None, kind: str, was: str, shown: str):
    cause = cause_of(UnmetGuard(guard, now))
    assert (cause.kind, cause.was, cause.now) == (kind, was, shown)


@pytest.mark.parametrize(
    ("guard", "subject", "was", "now"),
    [
        ("not hasattr(L['self'], 'scale')", "self.scale", "missing", "there"),
        ("hasattr(L['self'], 'scale')", "self.scale", "there", "missing"),
        ("getattr failed on source L['self'].scale", "self.scale", "there", "missing"),
        ("hasattr(L['x'], '_dynamo_dynamic_indices') == False", "mark_dynamic on x", "missing", "there"),
        ("getattr failed on source L['kw']['mask']", "'mask' in kw", "True", "False"),
        ("not ___dict_contains('a', L['d'])", "'a' in d", "False", "True"),
        (
            "((getattr(L['x'], '_dynamo_static_indices', set()).issubset({0})) if hasattr(L['x'], "
            "'_dynamo_static_indices') else True)",
            "mark_static on x", "{0}", "other dimensions",
        ),
    ],
)  # fmt: skip
def test_what_is_there_and_what_is_missing(guard: str, subject: str, was: str, now: str):
    cause = cause_of(UnmetGuard(guard, "True"))
    assert (cause.subject, cause.was, cause.now) == (subject, was, now)


@pytest.mark.parametrize(
    ("guard", "was", "now", "shown"),
    [
        ("___check_obj_id(L['m'].mode, 1), type=<class '__main__.E'>", "E.A", "E.B", ("attribute_value", "E.A", "E.B")),
        ("___check_obj_id(L['mode'], 1), type=<enum 'E'>", "E.A", "E.B", ("argument_value", "E.A", "E.B")),
        ("___check_obj_id(L['mode'], 1), type=<E.A: 1>", "E.A", "E.B", ("argument_value", "E.A", "E.B")),
        ("___check_obj_id(L['g'].__code__, 1), type=<code object a at 0x7, file \"m.py\", line 3>", "a", "b",
         ("identity", "a", "b")),
        ("___check_obj_id(L['t'], 1), type=tensor([1.,\n 1.])", None, "torch.Tensor", ("identity", None, "torch.Tensor")),
        ("___check_obj_id(G['mode'], 1), type=<class 'a.E'>", "E.A", "'b'", ("type", "E", "str")),
        ("___check_obj_id(L['mode'], 1), type=<class 'a.E'>", "E.A", "None", ("none", "E.A", "None")),
        ("___check_obj_id(L['c'], 1), type=<class '__main__.A'>", "__main__.A", "__main__.B", ("identity", "A", "B")),
        (
            "___check_obj_id(L['w'], 1), type=<class 'torch.Tensor'>", "torch.Tensor", "torch.Tensor",
            ("identity", "torch.Tensor", "another torch.Tensor"),
        ),
    ],
)  # fmt: skip
def test_an_object_and_another_one(guard: str, was: str, now: str, shown: tuple[str, str, str]):
    cause = cause_of(UnmetGuard(guard, now, was=was))
    assert (cause.kind, cause.was, cause.now) == shown


def test_backends_are_told_by_our_words_and_by_torchs():
    ours = UnmetGuard("BACKEND_MATCH failure", "eager", was="inductor")
    torchs = UnmetGuard(
        "BACKEND_MATCH failure: torch.compile detected different backend callables. Cached backend: a.f defined at "
        "a.py:3 (id=0x7f). New backend: a.f defined at a.py:3 (id=0x8f). If this is unexpected, wrap"
    )
    assert cause_of(ours) == Cause(CauseKind.OTHER, "backend", "inductor", "eager")
    assert cause_of(torchs) == Cause(
        CauseKind.OTHER, "backend", "a.f defined at a.py:3", "another a.f defined at a.py:3"
    )
    assert cause_of(UnmetGuard("BACKEND_MATCH failure: in few words")) == Cause(CauseKind.OTHER, "backend")


def test_function_modes():
    guard = UnmetGuard("___check_torch_function_mode_stack()", "__main__.Mode", was="none")
    assert cause_of(guard) == Cause(CauseKind.GLOBAL_STATE, "torch function modes", "none", "__main__.Mode")


@pytest.mark.parametrize(("was", "now"), [("[L['a'], L['b']]", "[]"), ("[]", "[L['a'], L['b']]")])
def test_shared_memory(was: str, now: str):
    cause = cause_of(UnmetGuard(f"check_overlapping(overlapping={was}, non_overlapping={now})", "x"))
    assert cause == Cause(CauseKind.ALIASING, "memory of a and b", "shared" if was != "[]" else "apart", "x")


def test_a_variable_of_an_enclosing_function_has_the_name_that_torch_hints_at():
    text = "L['a'].f.__closure__[1].cell_contents.__closure__[0].cell_contents == 2"
    assert cause_of(UnmetGuard(text, "3", hint='guard on "k", type int)')).subject == "k"
    assert "closure variable 0" in cause_of(UnmetGuard(text, "3")).subject
    length = UnmetGuard("len(L['f'].__closure__[0].cell_contents) == 2", "3", hint='guard on "xs"')
    assert cause_of(length).subject == "len(xs)"


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


@pytest.mark.parametrize("guard", ["", "nobody has seen this", "___some_new_check(x)"])
def test_a_guard_that_nobody_knows_is_told_as_it_is(guard: str):
    assert cause_of(UnmetGuard(guard.replace("x)", "L['x'])"))) == Cause(CauseKind.OTHER, guard)


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
    assert cause_of(UnmetGuard("".join(pieces))).kind in CAUSE_KINDS


def test_kinds_keep_their_names_which_logs_locks_and_json_reports_hold() -> None:
    assert set(map(str, CauseKind)) == CAUSE_KINDS
