"""Copies of arguments."""

import contextlib
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.comparing.state_copies import Copier, copied


class Named(torch.Tensor):
    """A subclass that overrides nothing, which deepcopy refuses."""


def test_a_subclass_that_overrides_nothing_is_copied():
    given = torch.ones(3).as_subclass(Named).requires_grad_()
    (twin,) = copied(Call((given,), {})).args
    assert type(twin) is Named
    assert twin.requires_grad
    assert twin.data_ptr() != given.data_ptr()


def test_the_copy_of_a_computed_tensor_is_a_leaf():
    computed = torch.ones(3).requires_grad_() * 2
    (twin,) = copied(Call((computed,), {})).args
    assert twin.is_leaf
    assert twin.requires_grad


def test_one_tensor_twice_stays_one():
    given = torch.ones(3).as_subclass(Named)
    call = copied(Call((given,), {"again": [given]}))
    assert call.args[0] is call.kwargs["again"][0]


def test_a_computed_buffer_is_copied_without_a_warning(recwarn: pytest.WarningsRecorder):
    """The user would see torch's warning with a place in ctrace."""
    model = torch.nn.Linear(2, 2)
    model.register_buffer("kept", torch.zeros(2))
    model.kept = model(torch.ones(2))
    with contextlib.suppress(RuntimeError):  # torch refuses to copy a computed tensor
        Copier().copy(model)
    assert [str(each.message) for each in recwarn] == []


def test_views_of_one_tensor_are_still_views_of_one():
    base = torch.arange(24.0)
    given = base[3:7], base.view(4, 6), base, base[20:]
    torch._dynamo.mark_dynamic(given[1], 0)
    first, second, whole, last = copied(Call(given, {})).args
    assert first._base is second._base is last._base is whole
    assert whole.data_ptr() != base.data_ptr()
    assert second._dynamo_dynamic_indices == {0}
    second.mul_(2)
    assert [each.tolist() for each in (first, last)] == [[6, 8, 10, 12], [40, 42, 44, 46]]
    assert base[3] == 3


def test_inputs_that_share_memory_otherwise_still_share_it():
    base = torch.arange(4.0)
    both = copied(Call((base.view(torch.int32), base), {})).args
    both[1].zero_()
    assert both[0].tolist() == [0, 0, 0, 0]


class Settings(dict[str, Any]):
    """What many model libraries call an AttrDict: asked for an attribute that it has not, it raises KeyError."""

    __getattr__ = dict.__getitem__


class Configured(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2)
        self.settings = Settings(scale=3.0, inner=Settings(bias=torch.ones(2)))
        self.again = self.settings
        self.settings.__dict__["note"] = ["kept"]


def test_a_dictionary_whose_attributes_are_its_items_is_copied():
    model: Any = Configured()
    twin: Any = Copier().copy(model)
    assert type(twin.settings) is type(twin.settings.inner) is Settings
    assert twin.settings is twin.again is not model.settings
    assert twin.settings.scale == 3.0
    assert twin.settings["inner"]["bias"] is not model.settings["inner"]["bias"]
    assert vars(twin.settings)["note"] == ["kept"]
    assert vars(twin.settings)["note"] is not vars(model.settings)["note"]
    twin.settings["scale"] = 4.0
    assert model.settings["scale"] == 3.0


def test_an_argument_may_be_one_too():
    (twin,) = copied(Call((Settings(x=torch.ones(2)),), {})).args
    assert twin.x.tolist() == [1, 1]


def test_another_error_of_a_copy_is_raised_as_it_is():
    class Refuses(dict[str, Any]):
        def __reduce_ex__(self, protocol: object) -> str:
            raise KeyError("not to be copied")

    model: Any = torch.nn.Linear(2, 2)
    model.kept = Refuses()
    with pytest.raises(KeyError, match="not to be copied"):
        Copier().copy(model)
