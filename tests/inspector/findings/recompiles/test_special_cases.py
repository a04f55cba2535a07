"""The special case of a cause, decided by facts."""

import pytest

from ctrace.inspector.facts.findings import CauseKind
from ctrace.inspector.findings.recompiles.special_cases import CauseFacts, case_of
from ctrace.inspector.knowledge.advice import entries

HINT = "torch.compile considers integer attributes of the nn.Module to be static. If you are observing recompilation)"
CPU = "DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU)"

SEEN = {
    "size": CauseFacts(
        CauseKind.SIZE, "x.size(0)", "4", "8", "tensor 'x' size mismatch at index 0. expected 4, actual 8"
    ),
    "size/fixed": CauseFacts(CauseKind.SIZE, "x.size(0)", "4", "8", is_fixed=True),
    "size/lowered": CauseFacts(CauseKind.SIZE, "x.size(0)", "4", "8", is_fixed=True, fixed_by="lowered"),
    "size/operation": CauseFacts(CauseKind.SIZE, "x.size(0)", "4", "8", is_fixed=True, fixed_by="operation"),
    "size/rank": CauseFacts(CauseKind.SIZE, "x.dim()", "2", "3", "tensor 'x' rank mismatch. expected 2, actual 3"),
    "size/parameter": CauseFacts(
        CauseKind.SIZE, "self.cache.size(0)", "2", "3", "tensor 'L['self']._buffers['cache']' size mismatch at index 0."
    ),
    "size/dynamic_off": CauseFacts(CauseKind.SIZE, "x.size(0)", "4", "8", is_dynamic_off=True),
    "size/listed_static": CauseFacts(CauseKind.SIZE, "x.size(0)", "4", "8", is_listed_static=True, is_dynamic_off=True),
    "zero_one": CauseFacts(CauseKind.ZERO_ONE, "x.size(0)", "2 or more", "1", "2 <= L['x'].size()[0]", is_first=True),
    "zero_one/first": CauseFacts(CauseKind.ZERO_ONE, "x.size(0)", "1", "8", is_first=True),
    "range": CauseFacts(CauseKind.RANGE, "x.size(0)", "2 to 6", "8", "2 <= L['x'].size()[0] <= 6"),
    "range/number": CauseFacts(CauseKind.RANGE, "(x.size(0) // 8)", "3", "4", is_number=True),
    "range/modulo": CauseFacts(CauseKind.RANGE, "(x.size(0) % 8)", "0", "1", "(L['x'].size()[0] % 8) == 0"),
    "duck_shape": CauseFacts(CauseKind.DUCK_SHAPE, "y.size(0)", "x.size(0)", "9"),
    "stride": CauseFacts(CauseKind.STRIDE, "x.stride(0)", "5", "1"),
    "stride/expanded": CauseFacts(CauseKind.STRIDE, "x.stride(0)", "5", "0"),
    "dtype": CauseFacts(CauseKind.DTYPE, "x.dtype", "Float", "Double"),
    "device": CauseFacts(CauseKind.DEVICE, "x.device", "cpu", "cuda"),
    "layout": CauseFacts(CauseKind.LAYOUT, "x.layout", "strided", "sparse"),
    "requires_grad": CauseFacts(
        CauseKind.REQUIRES_GRAD, "x.requires_grad", "False", "True", "tensor 'L['x']' requires_grad"
    ),
    "requires_grad/layers": CauseFacts(
        CauseKind.REQUIRES_GRAD, "x.requires_grad", "False", "True", is_later_layer=True
    ),
    "requires_grad/parameter": CauseFacts(
        CauseKind.REQUIRES_GRAD,
        "model.weight.requires_grad",
        "True",
        "False",
        "tensor 'L['fn']._parameters['weight']' ...",
    ),
    "dispatch_keys": CauseFacts(CauseKind.DISPATCH_KEYS, "x", CPU, CPU.replace("CPU", "Meta")),
    "dispatch_keys/inference": CauseFacts(CauseKind.DISPATCH_KEYS, "x", CPU, CPU.replace(", AutogradCPU", "")),
    "dispatch_keys/lazy_view": CauseFacts(CauseKind.DISPATCH_KEYS, "x", CPU, CPU.replace("BackendSelect", "Conjugate")),
    "dispatch_keys/functorch": CauseFacts(CauseKind.DISPATCH_KEYS, "x", CPU, CPU.replace("CPU,", "FuncTorchBatched,")),
    "grad_mode": CauseFacts(CauseKind.GRAD_MODE, "grad_mode"),
    "autocast": CauseFacts(CauseKind.AUTOCAST, "autocast(cpu)_enabled"),
    "autocast/dtype": CauseFacts(CauseKind.AUTOCAST, "autocast(cpu)_dtype"),
    "global_state": CauseFacts(CauseKind.GLOBAL_STATE, "something new"),
    "global_state/num_threads": CauseFacts(CauseKind.GLOBAL_STATE, "num_threads"),
    "global_state/deterministic": CauseFacts(CauseKind.GLOBAL_STATE, "deterministic_algorithms_warn_only"),
    "global_state/default_dtype": CauseFacts(CauseKind.GLOBAL_STATE, "default_dtype"),
    "global_state/matmul_precision": CauseFacts(CauseKind.GLOBAL_STATE, "allow_tf32"),
    "global_state/function_mode": CauseFacts(CauseKind.GLOBAL_STATE, "torch function modes"),
    "global_state/stream": CauseFacts(CauseKind.GLOBAL_STATE, "stream is the current stream", "True", "False"),
    "training_mode": CauseFacts(CauseKind.TRAINING_MODE, "model.training", "True", "False"),
    "attribute_value": CauseFacts(CauseKind.ATTRIBUTE_VALUE, "self.shape", "(2, 3)", "(3, 2)"),
    "attribute_value/int": CauseFacts(CauseKind.ATTRIBUTE_VALUE, "self.step", "0", "1", "L['self'].step == 0", HINT),
    "attribute_value/fixed": CauseFacts(
        CauseKind.ATTRIBUTE_VALUE, "settings.n", "0", "1", "L['settings'].n == 0", is_fixed=True
    ),
    "attribute_value/object_int": CauseFacts(CauseKind.ATTRIBUTE_VALUE, "settings.n", "0", "1", "L['settings'].n == 0"),
    "attribute_value/listed_static": CauseFacts(
        CauseKind.ATTRIBUTE_VALUE, "settings.n", "0", "1", is_listed_static=True
    ),
    "attribute_value/float": CauseFacts(CauseKind.ATTRIBUTE_VALUE, "self.scale", "0.5", "1.5"),
    "attribute_value/bool": CauseFacts(CauseKind.ATTRIBUTE_VALUE, "self.flag", "True", "False"),
    "attribute_value/str": CauseFacts(CauseKind.ATTRIBUTE_VALUE, "self.kind", "'relu'", "'tanh'"),
    "attribute_value/missing": CauseFacts(CauseKind.ATTRIBUTE_VALUE, "self.scale", "missing", "there"),
    "attribute_value/optimizer": CauseFacts(
        CauseKind.ATTRIBUTE_VALUE, "lr", "0.1", "0.05", "L['self'].param_groups[0]['lr'] == 0.1"
    ),
    "argument_value": CauseFacts(CauseKind.ARGUMENT_VALUE, "dtype", "torch.float64", "torch.float16"),
    "argument_value/int": CauseFacts(CauseKind.ARGUMENT_VALUE, "n", "-2", "3"),
    "argument_value/fixed": CauseFacts(CauseKind.ARGUMENT_VALUE, "n", "2", "3", is_fixed=True),
    "argument_value/listed_static": CauseFacts(
        CauseKind.ARGUMENT_VALUE, "n", "2", "3", is_listed_static=True, is_fixed=True
    ),
    "argument_value/float": CauseFacts(CauseKind.ARGUMENT_VALUE, "n", "1e-05", "3.0"),
    "argument_value/bool": CauseFacts(CauseKind.ARGUMENT_VALUE, "flag", "False", "True"),
    "argument_value/str": CauseFacts(CauseKind.ARGUMENT_VALUE, "kind", '"it\'s"', "''"),
    "argument_value/iterator": CauseFacts(CauseKind.ARGUMENT_VALUE, "position of numbers", "(0, 1)", "(5, 1)"),
    "global_value": CauseFacts(CauseKind.GLOBAL_VALUE, "FLAG", "True", "False"),
    "global_value/int": CauseFacts(CauseKind.GLOBAL_VALUE, "STEP", "2", "3"),
    "global_value/float": CauseFacts(CauseKind.GLOBAL_VALUE, "SCALE", "0.5", "1.5"),
    "closure_value": CauseFacts(CauseKind.CLOSURE_VALUE, "kind", "'relu'", "'tanh'"),
    "closure_value/int": CauseFacts(CauseKind.CLOSURE_VALUE, "n", "2", "3"),
    "closure_value/listed_static": CauseFacts(CauseKind.CLOSURE_VALUE, "n", "2", "3", is_listed_static=True),
    "closure_value/float": CauseFacts(CauseKind.CLOSURE_VALUE, "scale", "nan", "1.5"),
    "break_result": CauseFacts(CauseKind.BREAK_RESULT, "the value that the broken call returned", "8.0", "12.0"),
    "length": CauseFacts(CauseKind.LENGTH, "len(xs)", "2", "3", "len(L['xs']) == 2"),
    "length/keywords": CauseFacts(
        CauseKind.LENGTH, "len(options)", "1", "2", "len(L['options']) == 1", is_keywords=True
    ),
    "length/held": CauseFacts(CauseKind.LENGTH, "len(self.seen)", "2", "3", "len(L['self'].seen) == 2"),
    "length/module": CauseFacts(CauseKind.LENGTH, "len(self.layers._modules)", "1", "2"),
    "length/optimizer": CauseFacts(
        CauseKind.LENGTH,
        "len(self.state[...])",
        "0",
        "1",
        "len(L['self'].state[list(dict.keys(L['self'].state))[0]]) != 0",
    ),
    "length/iterator": CauseFacts(
        CauseKind.LENGTH, "items left in it", "3", "2", "___tuple_iterator_len(L['it']) == 3"
    ),
    "key_order": CauseFacts(CauseKind.KEY_ORDER, "d", "'a'", "'b'", "list(dict.keys(L['d']))[0] == 'a'"),
    "key_order/contains": CauseFacts(CauseKind.KEY_ORDER, "'m' in cache", "False", "True"),
    "key_order/new_key": CauseFacts(CauseKind.KEY_ORDER, "'1.8' in seen", "False", "True", is_new_key=True),
    "none": CauseFacts(CauseKind.NONE, "mask", "None", "torch.Tensor", "L['mask'] is None"),
    "none/attribute": CauseFacts(CauseKind.NONE, "self.cache", "None", "torch.Tensor", "L['self'].cache is None"),
    "none/gradient": CauseFacts(CauseKind.NONE, "w.grad", "None", "torch.Tensor", "L['w'].grad is None"),
    "type": CauseFacts(CauseKind.TYPE, "xs", "list", "tuple", "___check_type_id(L['xs'], 1), type=<class 'list'>"),
    "type/number": CauseFacts(CauseKind.TYPE, "n", "2", "2.5", "L['n'] == 2"),
    "type/tensor": CauseFacts(CauseKind.TYPE, "n", "Tensor", "<class 'int'>"),
    "type/parameter": CauseFacts(CauseKind.TYPE, "x", "Tensor", "<class 'torch.nn.parameter.Parameter'>"),
    "type/collective": CauseFacts(
        CauseKind.TYPE, "x", "torch.distributed._functional_collectives.AsyncCollectiveTensor", "torch.Tensor"
    ),
    "type/subclass": CauseFacts(CauseKind.TYPE, "x", "torch.Tensor", "__main__.Marked"),
    "type/module": CauseFacts(
        CauseKind.TYPE, "self.act", "ReLU", "Tanh", "___check_type_id(L['self']._modules['act'], 1)"
    ),
    "identity": CauseFacts(CauseKind.IDENTITY, "cls", guard="___check_obj_id(L['cls'], 1), type=<class 'type'>"),
    "identity/function": CauseFacts(CauseKind.IDENTITY, "fn.__code__", guard="___check_obj_id(L['fn'].__code__, 1)"),
    "identity/tensor": CauseFacts(
        CauseKind.IDENTITY, "w", guard="___check_obj_id(L['w'], 1), type=<class 'torch.Tensor'>"
    ),
    "identity/gone": CauseFacts(
        CauseKind.IDENTITY, "fn", guard="Cache line invalidated because L['fn'] got deallocated"
    ),
    "aliasing": CauseFacts(CauseKind.ALIASING, "x", "y", None, "L['x'] is L['y']"),
    "other": CauseFacts(CauseKind.OTHER, "not set.__contains__(L['s'], 3)", guard="not set.__contains__(L['s'], 3)"),
    "other/backend": CauseFacts(CauseKind.OTHER, "backend", guard="BACKEND_MATCH failure"),
    "other/mark": CauseFacts(
        CauseKind.OTHER, "mark_dynamic on x", guard="hasattr(L['x'], '_dynamo_dynamic_indices') == False"
    ),
    "other/lazy_copy": CauseFacts(CauseKind.OTHER, "x is a lazy copy", "False", "True"),
    "other/nan": CauseFacts(CauseKind.OTHER, "s", guard="not math.isnan(L['s'])"),
}


@pytest.mark.parametrize("key", SEEN)
def test_a_cause_gets_its_case(key: str):
    facts = SEEN[key]
    kind, _, case = key.partition("/")
    assert (facts.kind, case_of(facts)) == (kind, case)


def test_a_tensor_made_in_inference_mode_lacks_the_keys_of_views_too():
    assert case_of(CauseFacts(CauseKind.DISPATCH_KEYS, "x", CPU, "DispatchKeySet(CPU, BackendSelect)")) == "inference"


def test_every_entry_is_for_a_cause_that_can_be():
    assert set(SEEN) == set(entries("causes"))


@pytest.mark.parametrize(
    ("facts", "case"),
    [
        (
            CauseFacts(CauseKind.SIZE, "w.size(0)", "4", "8", "... Guard failed on a parameter, consider using"),
            "parameter",
        ),
        (
            CauseFacts(
                CauseKind.SIZE, "w.size(0)", guard="L['w']._parameters['a']", is_fixed=True, is_dynamic_off=True
            ),
            "parameter",
        ),
        (CauseFacts(CauseKind.SIZE, "x.size(0)", is_fixed=True, is_dynamic_off=True), "fixed"),
        (CauseFacts(CauseKind.SIZE, "w.size(0)", "4", "8", is_weight=True), "parameter"),
        (CauseFacts(CauseKind.SIZE, "w.size(0)", "4", "8", is_weight=True, is_open=True), ""),
        (CauseFacts(CauseKind.SIZE, "x.size(0)", "4", "8", is_dynamic_off=True, is_open=True), ""),
        (CauseFacts(CauseKind.ZERO_ONE, "x.size(0)", "1", "8"), ""),
        (CauseFacts(CauseKind.ZERO_ONE, "x.size(0)", "1", "0", is_first=True), ""),
        (CauseFacts(CauseKind.ATTRIBUTE_VALUE, "self.n", "1", "2", holder="module"), "int"),
        (CauseFacts(CauseKind.ATTRIBUTE_VALUE, "self.n", "1", "2", holder="object", hint=HINT), "object_int"),
        (CauseFacts(CauseKind.ATTRIBUTE_VALUE, "self.n", "0.1", "0.2", holder="optimizer"), "optimizer"),
        (CauseFacts(CauseKind.ARGUMENT_VALUE, "n", "'a'", "'b'", is_fixed=True), "str"),
        (CauseFacts(CauseKind.ARGUMENT_VALUE, "n", None, None), ""),
        (CauseFacts(CauseKind.GLOBAL_STATE, "cuda_matmul_precision"), "matmul_precision"),
        (CauseFacts(CauseKind.TYPE, "n", "bool", "int"), "number"),
        (CauseFacts(CauseKind.TYPE, "n", "2", "torch.Tensor"), "tensor"),
        (CauseFacts(CauseKind.TYPE, "n"), ""),
        (CauseFacts(CauseKind.LENGTH, "len(xs)", holder="optimizer"), "optimizer"),
        (CauseFacts(CauseKind.LENGTH, "len(self.state['a'])", guard="len(L['self'].state['a']) == 2"), "held"),
        (CauseFacts("no such kind", "x"), ""),  # type: ignore[arg-type]  # of a newer version,
    ],
)
def test_of_several_facts_the_one_that_decides_the_fix_counts(facts: CauseFacts, case: str):
    assert case_of(facts) == case


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "'open", "DispatchKeySet(", "__code__ hasattr("])
def test_text_of_any_kind_is_read(text: str):
    for kind in {key.partition("/")[0] for key in SEEN}:
        assert isinstance(case_of(CauseFacts(CauseKind(kind), text, text, text, text, text)), str)
