"""Which special advice fits a cause, told from facts."""

import pytest

from ctrace.inspector.advice import entries
from ctrace.inspector.recompiles.cases import Facts, case_of

HINT = "torch.compile considers integer attributes of the nn.Module to be static. If you are observing recompilation)"
CPU = "DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU)"

SEEN = {
    "size": Facts("size", "x.size(0)", "4", "8", "tensor 'x' size mismatch at index 0. expected 4, actual 8"),
    "size/fixed": Facts("size", "x.size(0)", "4", "8", is_fixed=True),
    "size/lowered": Facts("size", "x.size(0)", "4", "8", is_fixed=True, fixed_by="lowered"),
    "size/operation": Facts("size", "x.size(0)", "4", "8", is_fixed=True, fixed_by="operation"),
    "size/rank": Facts("size", "x.dim()", "2", "3", "tensor 'x' rank mismatch. expected 2, actual 3"),
    "size/parameter": Facts(
        "size", "self.cache.size(0)", "2", "3", "tensor 'L['self']._buffers['cache']' size mismatch at index 0."
    ),
    "size/dynamic_off": Facts("size", "x.size(0)", "4", "8", is_dynamic_off=True),
    "zero_one": Facts("zero_one", "x.size(0)", "2 or more", "1", "2 <= L['x'].size()[0]", is_first=True),
    "zero_one/first": Facts("zero_one", "x.size(0)", "1", "8", is_first=True),
    "range": Facts("range", "x.size(0)", "2 to 6", "8", "2 <= L['x'].size()[0] <= 6"),
    "range/modulo": Facts("range", "(x.size(0) % 8)", "0", "1", "(L['x'].size()[0] % 8) == 0"),
    "duck_shape": Facts("duck_shape", "y.size(0)", "x.size(0)", "9"),
    "stride": Facts("stride", "x.stride(0)", "5", "1"),
    "stride/expanded": Facts("stride", "x.stride(0)", "5", "0"),
    "dtype": Facts("dtype", "x.dtype", "Float", "Double"),
    "device": Facts("device", "x.device", "cpu", "cuda"),
    "layout": Facts("layout", "x.layout", "strided", "sparse"),
    "requires_grad": Facts("requires_grad", "x.requires_grad", "False", "True", "tensor 'L['x']' requires_grad"),
    "requires_grad/parameter": Facts(
        "requires_grad", "model.weight.requires_grad", "True", "False", "tensor 'L['fn']._parameters['weight']' ..."
    ),
    "dispatch_keys": Facts("dispatch_keys", "x", CPU, CPU.replace("CPU", "Meta")),
    "dispatch_keys/inference": Facts("dispatch_keys", "x", CPU, CPU.replace(", AutogradCPU", "")),
    "dispatch_keys/lazy_view": Facts("dispatch_keys", "x", CPU, CPU.replace("BackendSelect", "Conjugate")),
    "dispatch_keys/functorch": Facts("dispatch_keys", "x", CPU, CPU.replace("CPU,", "FuncTorchBatched,")),
    "grad_mode": Facts("grad_mode", "grad_mode"),
    "autocast": Facts("autocast", "autocast(cpu)_enabled"),
    "autocast/dtype": Facts("autocast", "autocast(cpu)_dtype"),
    "global_state": Facts("global_state", "something new"),
    "global_state/num_threads": Facts("global_state", "num_threads"),
    "global_state/deterministic": Facts("global_state", "deterministic_algorithms_warn_only"),
    "global_state/default_dtype": Facts("global_state", "default_dtype"),
    "global_state/matmul_precision": Facts("global_state", "allow_tf32"),
    "global_state/function_mode": Facts("global_state", "torch function modes"),
    "training_mode": Facts("training_mode", "model.training", "True", "False"),
    "attribute_value": Facts("attribute_value", "self.shape", "(2, 3)", "(3, 2)"),
    "attribute_value/int": Facts("attribute_value", "self.step", "0", "1", "L['self'].step == 0", HINT),
    "attribute_value/object_int": Facts("attribute_value", "settings.n", "0", "1", "L['settings'].n == 0"),
    "attribute_value/float": Facts("attribute_value", "self.scale", "0.5", "1.5"),
    "attribute_value/bool": Facts("attribute_value", "self.flag", "True", "False"),
    "attribute_value/str": Facts("attribute_value", "self.kind", "'relu'", "'tanh'"),
    "attribute_value/missing": Facts("attribute_value", "self.scale", "missing", "there"),
    "attribute_value/optimizer": Facts(
        "attribute_value", "lr", "0.1", "0.05", "L['self'].param_groups[0]['lr'] == 0.1"
    ),
    "argument_value": Facts("argument_value", "dtype", "torch.float64", "torch.float16"),
    "argument_value/int": Facts("argument_value", "n", "-2", "3"),
    "argument_value/fixed": Facts("argument_value", "n", "2", "3", is_fixed=True),
    "argument_value/float": Facts("argument_value", "n", "1e-05", "3.0"),
    "argument_value/bool": Facts("argument_value", "flag", "False", "True"),
    "argument_value/str": Facts("argument_value", "kind", '"it\'s"', "''"),
    "global_value": Facts("global_value", "FLAG", "True", "False"),
    "global_value/int": Facts("global_value", "STEP", "2", "3"),
    "global_value/float": Facts("global_value", "SCALE", "0.5", "1.5"),
    "closure_value": Facts("closure_value", "kind", "'relu'", "'tanh'"),
    "closure_value/int": Facts("closure_value", "n", "2", "3"),
    "closure_value/float": Facts("closure_value", "scale", "nan", "1.5"),
    "break_result": Facts("break_result", "the value that the broken call returned", "8.0", "12.0"),
    "length": Facts("length", "len(xs)", "2", "3", "len(L['xs']) == 2"),
    "length/held": Facts("length", "len(self.seen)", "2", "3", "len(L['self'].seen) == 2"),
    "length/module": Facts("length", "len(self.layers._modules)", "1", "2"),
    "length/optimizer": Facts(
        "length", "len(self.state[...])", "0", "1", "len(L['self'].state[list(dict.keys(L['self'].state))[0]]) != 0"
    ),
    "key_order": Facts("key_order", "d", "'a'", "'b'", "list(dict.keys(L['d']))[0] == 'a'"),
    "key_order/contains": Facts("key_order", "'m' in cache", "False", "True"),
    "none": Facts("none", "mask", "None", "torch.Tensor", "L['mask'] is None"),
    "none/attribute": Facts("none", "self.cache", "None", "torch.Tensor", "L['self'].cache is None"),
    "none/gradient": Facts("none", "w.grad", "None", "torch.Tensor", "L['w'].grad is None"),
    "type": Facts("type", "xs", "list", "tuple", "___check_type_id(L['xs'], 1), type=<class 'list'>"),
    "type/number": Facts("type", "n", "2", "2.5", "L['n'] == 2"),
    "type/tensor": Facts("type", "n", "Tensor", "<class 'int'>"),
    "type/parameter": Facts("type", "x", "Tensor", "<class 'torch.nn.parameter.Parameter'>"),
    "type/subclass": Facts("type", "x", "torch.Tensor", "__main__.Marked"),
    "type/module": Facts("type", "self.act", "ReLU", "Tanh", "___check_type_id(L['self']._modules['act'], 1)"),
    "identity": Facts("identity", "cls", guard="___check_obj_id(L['cls'], 1), type=<class 'type'>"),
    "identity/function": Facts("identity", "fn.__code__", guard="___check_obj_id(L['fn'].__code__, 1)"),
    "identity/tensor": Facts("identity", "w", guard="___check_obj_id(L['w'], 1), type=<class 'torch.Tensor'>"),
    "identity/gone": Facts("identity", "fn", guard="Cache line invalidated because L['fn'] got deallocated"),
    "aliasing": Facts("aliasing", "x", "y", None, "L['x'] is L['y']"),
    "other": Facts("other", "not set.__contains__(L['s'], 3)", guard="not set.__contains__(L['s'], 3)"),
    "other/backend": Facts("other", "backend", guard="BACKEND_MATCH failure"),
    "other/mark": Facts("other", "mark_dynamic on x", guard="hasattr(L['x'], '_dynamo_dynamic_indices') == False"),
    "other/nan": Facts("other", "s", guard="not math.isnan(L['s'])"),
}


@pytest.mark.parametrize("key", SEEN)
def test_a_cause_gets_its_case(key: str):
    facts = SEEN[key]
    kind, _, case = key.partition("/")
    assert (facts.kind, case_of(facts)) == (kind, case)


def test_a_tensor_made_in_inference_mode_lacks_the_keys_of_views_too():
    assert case_of(Facts("dispatch_keys", "x", CPU, "DispatchKeySet(CPU, BackendSelect)")) == "inference"


def test_every_entry_is_for_a_cause_that_can_be():
    assert set(SEEN) == set(entries("causes"))


@pytest.mark.parametrize(
    ("facts", "case"),
    [
        (Facts("size", "w.size(0)", "4", "8", "... Guard failed on a parameter, consider using"), "parameter"),
        (Facts("size", "w.size(0)", guard="L['w']._parameters['a']", is_fixed=True, is_dynamic_off=True), "parameter"),
        (Facts("size", "x.size(0)", is_fixed=True, is_dynamic_off=True), "fixed"),
        (Facts("size", "w.size(0)", "4", "8", is_weight=True), "parameter"),
        (Facts("size", "w.size(0)", "4", "8", is_weight=True, is_open=True), ""),
        (Facts("size", "x.size(0)", "4", "8", is_dynamic_off=True, is_open=True), ""),
        (Facts("zero_one", "x.size(0)", "1", "8"), ""),
        (Facts("zero_one", "x.size(0)", "1", "0", is_first=True), ""),
        (Facts("attribute_value", "self.n", "1", "2", holder="module"), "int"),
        (Facts("attribute_value", "self.n", "1", "2", holder="object", hint=HINT), "object_int"),
        (Facts("attribute_value", "self.n", "0.1", "0.2", holder="optimizer"), "optimizer"),
        (Facts("argument_value", "n", "'a'", "'b'", is_fixed=True), "str"),
        (Facts("argument_value", "n", None, None), ""),
        (Facts("type", "n", "bool", "int"), "number"),
        (Facts("type", "n", "2", "torch.Tensor"), "tensor"),
        (Facts("type", "n"), ""),
        (Facts("length", "len(xs)", holder="optimizer"), "optimizer"),
        (Facts("length", "len(self.state['a'])", guard="len(L['self'].state['a']) == 2"), "held"),
        (Facts("no such kind", "x"), ""),
    ],
)
def test_of_several_facts_the_one_that_decides_the_fix_counts(facts: Facts, case: str):
    assert case_of(facts) == case


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "'open", "DispatchKeySet(", "__code__ hasattr("])
def test_text_of_any_kind_is_read(text: str):
    for kind in {key.partition("/")[0] for key in SEEN}:
        assert isinstance(case_of(Facts(kind, text, text, text, text, text)), str)
