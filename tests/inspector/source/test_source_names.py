"""Convert torch's names for values to the user's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.source.source_names import user_name
from tests.support.helpers import fuzzing


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['x']", "x"),
        ("G['STEP']", "STEP"),
        ("L['x'].size()[0]", "x.size(0)"),
        ("L['x'].stride()[1]", "x.stride(1)"),
        ("L['self'].step", "self.step"),
        ("L['self']._modules['fc']._parameters['weight']", "self.fc.weight"),
        ("L['self']._buffers['mean'].size()[1]", "self.mean.size(1)"),
        ("L['self']._modules['layers']._modules['0'].training", "self.layers[0].training"),
        ("L['self'].__dict__['mode']", "self.mode"),
        ("dict(type(L['self']).__dict__)['scale']", "type(self).scale"),
        ("L['self'].cfg['rate']", "self.cfg['rate']"),
        ("L['xs'][0]", "xs[0]"),
        ("G['helper'].__closure__[0].cell_contents", "closure variable 0"),
        ("L['___stack0']", "the value that the broken call returned"),
        (" L['x'] ", "x"),
        ("G['__import_torch_dot_nn_dot_modules_dot_linear']", "torch.nn.modules.linear"),
        ("G['__import_numpy'].float32", "numpy.float32"),
        ("G['__builtins_dict___0']['len']", "builtins.len"),
        ("G['__builtins_dict___12']", "builtins"),
        ("len(L['self']._modules['layers']._modules)", "len(self.layers._modules)"),
        ("___from_numpy(L['a']).size()[0]", "a.size(0)"),
        ("___from_numpy(L['a'][0])", "a[0]"),
        ("x.size()[0]", "x.size(0)"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_names(source: str, name: str):
    assert user_name(source) == name


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['fn']._modules['1'].training", "model[1].training"),
        ("L['fn']._parameters['weight']", "model.weight"),
        ("L['fn'].training", "model.training"),
        ("L['fn'].__dict__['mode']", "model.mode"),
    ],
)
def test_a_compiled_module_is_called_model(source: str, name: str):
    assert user_name(source) == name


@pytest.mark.parametrize(
    ("source", "name"), [("L['fn']", "fn"), ("L['fn'].__code__", "fn.__code__"), ("L['fn'].rate", "fn.rate")]
)
def test_a_function_of_that_name_keeps_it(source: str, name: str):
    assert user_name(source) == name


@fuzzing
@given(st.text())
def test_any_text_is_a_name(source: str):
    assert isinstance(user_name(source), str)
