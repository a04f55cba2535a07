"""Programs without values in this process: what is known, what has no storage, and where a question stops."""

import copy
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ctrace.inspector.capture.calls.calling import CallStoppedError
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.features.fake.child.door import FakeModel
from ctrace.inspector.features.fake.child.without_storage import has_no_memory
from ctrace.inspector.runs.capture_request import Options


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    log = TraceLog(tmp_path / "trace.log", None)
    yield Recorder(log)
    log.close()


@pytest.fixture
def fake(recorder: Recorder) -> Iterator[FakeModel]:
    model = FakeModel(Options(fake=True), recorder)
    with model.active():
        yield model


def test_tensors_of_any_size_take_no_memory(fake: FakeModel) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    layer = nn.Linear(1 << 17, 1 << 17, dtype=torch.bfloat16)  # 32 GiB
    hidden = layer(torch.randn(8, 1 << 17, dtype=torch.bfloat16))
    hidden.float().sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.shape == layer.weight.shape
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_a_tensor_without_storage_is_an_ordinary_one(fake: FakeModel) -> None:
    tensor = torch.randn(4, 6, dtype=torch.float16)
    assert type(tensor) is torch.Tensor
    assert tensor.device.type == "cpu"
    assert tensor.t().stride() == (1, 6)
    assert tensor.untyped_storage().nbytes() == 48
    assert tensor.t()._base is tensor
    assert has_no_memory(tensor)
    assert torch._C._dispatch_keys(tensor) == torch._C._dispatch_keys(torch.ones(2, dtype=torch.float16))


KNOWN: dict[str, Callable[[], Any]] = {
    "constants": lambda: torch.arange(8).sum().item() == 28,
    "steps": lambda: [round(each.item(), 2) for each in torch.linspace(0, 0.2, 3)] == [0.0, 0.1, 0.2],
    "comparison": lambda: bool((torch.ones(4) > 0).all()),
    "of an unknown one's shape": lambda: torch.zeros_like(torch.randn(3)).sum().item() == 0,
    "list": lambda: torch.tensor([3, 1, 2]).sort().values.tolist() == [1, 2, 3],
    "NumPy": lambda: torch.eye(3).numpy().trace() == 3,
    "elements": lambda: torch.tensor([0, 5, 0, 7]).nonzero().shape == (2, 1),
    "written to": lambda: torch.zeros(3).add_(2).sum().item() == 6,
}


@pytest.mark.parametrize("question", KNOWN.values(), ids=KNOWN.keys())
def test_constants_of_the_program_are_known(fake: FakeModel, question: Callable[[], Any]) -> None:
    assert question()


def x() -> torch.Tensor:
    return torch.randn(4, 4)


ASKED: dict[str, Callable[[], Any]] = {
    "item": lambda: x().sum().item(),
    "int": lambda: int(x().argmax()),
    "float": lambda: float(x().mean()),
    "bool": lambda: bool(x().any()),
    "branch": lambda: 1 if x().sum() > 0 else 2,
    "not": lambda: not x().max(),
    "assert": lambda: x().max() and True,
    "index": lambda: [1, 2, 3][x().argmax()],
    "format": lambda: f"{x().sum():.2f}",
    "tolist": lambda: x().tolist(),
    "numpy": lambda: x().numpy(),
    "equal": lambda: torch.equal(x(), x()),
    "allclose": lambda: torch.allclose(x(), x()),
    "nonzero": lambda: x().nonzero(),
    "where": lambda: torch.where(x() > 0),
    "mask": lambda: x()[x() > 0],
    "masked_select": lambda: torch.masked_select(x(), x() > 0),
    "unique": lambda: torch.unique(x()),
    "unique_consecutive": lambda: torch.unique_consecutive(x()),
    "bincount": lambda: torch.bincount(torch.randint(0, 5, (9,))),
    "repeat_interleave": lambda: torch.repeat_interleave(torch.arange(4), torch.randint(0, 5, (4,))),
    "one_hot": lambda: nn.functional.one_hot(torch.randint(0, 5, (4,))),
    "contains": lambda: 3.0 in x(),
    "range": lambda: list(range(torch.randint(0, 5, ()))),
    "random then known": lambda: torch.zeros(2).add_(torch.rand(2)).sum().item(),
    "written into": lambda: torch.ones(3).copy_(torch.rand(3)).max().item(),
    "seen through a view": lambda: _through_a_view().item(),
    "max of a loop": lambda: max(x().flatten()),
    "split by values": lambda: x().split(torch.randint(1, 2, (4,)).tolist()),
    "any of a mask": lambda: bool((torch.randint(0, 9, (4,)) == 0).any()),
}


def test_the_address_of_values_that_do_not_exist_stops(fake: FakeModel) -> None:
    with pytest.raises(CallStoppedError, match="asks for the address of values that do not exist") as caught:
        x().data_ptr()
    assert "custom_op" in caught.value.todo
    assert torch.arange(3).data_ptr()


def _through_a_view() -> torch.Tensor:
    whole = torch.zeros(4)
    whole[1:].normal_()
    return whole[0]


@pytest.mark.parametrize("question", ASKED.values(), ids=ASKED.keys())
def test_a_question_about_values_stops_at_its_line(fake: FakeModel, question: Callable[[], Any]) -> None:
    line = question.__code__.co_firstlineno
    with pytest.raises(CallStoppedError) as caught:
        question()
    at = str(caught.value)
    assert at.startswith(f"{__file__}:")
    assert int(at.removeprefix(f"{__file__}:").partition(" ")[0]) >= min(line, x.__code__.co_firstlineno)
    assert "asks for" in at


def test_answers_come_from_the_user_call_by_call(recorder: Recorder) -> None:
    line = _asks.__code__.co_firstlineno + 1
    column = 12
    assumed = (f"{Path(__file__).name}:{line}:{column}=True,False",)
    model = FakeModel(Options(fake=True, assume=assumed), recorder)
    with model.active():
        calls = model.values()
        assert calls is not None
        seen = []
        for index in range(3):
            calls.call(index)
            seen.append(_asks())
    assert seen == [True, False, False]


def _asks() -> bool:
    return (x().sum() > 0).item()  # type: ignore[return-value]


def test_a_size_can_be_assumed(recorder: Recorder) -> None:
    line = _finds.__code__.co_firstlineno + 1
    with FakeModel(Options(fake=True, assume=(f"{Path(__file__).name}:{line}=5",)), recorder).active():
        assert _finds().shape == (5, 2)


def _finds() -> torch.Tensor:
    return x().nonzero()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.head = nn.Linear(8, 50, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("table", torch.arange(8.0))


def test_parameters_have_no_storage_and_shared_ones_count_once(fake: FakeModel) -> None:
    model = fake.made(Tied(), _module())
    assert model.head.weight is model.embedding.weight
    assert all(has_no_memory(each) for each in model.parameters())
    size = fake.size(model)
    assert (size.fake, size.parameters, size.parameter_bytes) == (True, 400, 1600)


def test_lists_in_layers_and_of_different_modules_stay_whole(recorder: Recorder) -> None:
    layers = nn.ModuleList(nn.ModuleList(nn.Linear(2, 2) for _ in range(5)) for _ in range(4))
    whole = nn.ModuleDict({"layers": layers, "others": nn.ModuleList([nn.ReLU(), nn.Linear(2, 2), nn.GELU()])})
    fake = FakeModel(Options(layers=2), recorder)
    with fake.active():
        made = fake.made(whole, _module())
    assert [len(each) for each in made["layers"]] == [5, 5]
    assert len(made["others"]) == 3
    assert (fake.size(made).layers, fake.size(made).layers_cut) == (2, 2)


def test_a_model_on_the_meta_device_begins_it(recorder: Recorder) -> None:
    model = FakeModel(Options(), recorder)
    with model.active():
        with torch.device("meta"):
            tied = Tied()
        assert not model.is_fake
        made = model.made(tied, _module())
        assert model.is_fake
        assert made.head.weight is made.embedding.weight
        assert {each.device.type for each in (*made.parameters(), *made.buffers())} == {"cpu"}
        assert has_no_memory(torch.rand(3))


def _module() -> Any:
    import types

    return types.ModuleType("model")


def test_copies_text_and_state_need_no_values(fake: FakeModel) -> None:
    layer = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    other = copy.deepcopy(layer)
    other.load_state_dict(layer.state_dict())
    assert has_no_memory(copy.deepcopy({"a": x()})["a"])
    assert "size=(4, 4)" in repr(x())
    assert layer.to(torch.float64)(torch.rand(3, 4, dtype=torch.float64)).dtype is torch.float64


@pytest.mark.parametrize("name", [each for each in dir(nn.init) if each.endswith("_") and not each.startswith("_")])
def test_weights_can_be_initialized_in_any_way(fake: FakeModel, name: str) -> None:
    arguments = {"sparse_": (0.5,), "constant_": (1.0,)}.get(name, ())
    weight = torch.empty((4, 4, 3) if name == "dirac_" else (4, 4))
    getattr(nn.init, name)(weight, *arguments)
    assert has_no_memory(weight)
    nn.init.trunc_normal_(torch.zeros(4))


def test_ops_keep_strides_and_errors(fake: FakeModel) -> None:
    image = torch.rand(2, 3, 8, 8).to(memory_format=torch.channels_last)
    assert nn.Conv2d(3, 4, 3)(image).is_contiguous(memory_format=torch.channels_last)
    assert x().t().contiguous().stride() == (4, 1)
    assert torch.empty(3, 4).t().clone().stride() == (1, 4)
    with torch.inference_mode():
        assert (x() @ x()).reshape(2, 8).shape == (2, 8)
    assert torch.func.vmap(lambda row: row.sum())(x()).shape == (4,)
    assert torch.func.grad(lambda value: value.sum())(x()).shape == (4, 4)
    with pytest.raises(RuntimeError, match=r"broadcast|must match"):
        torch.rand(3, 4) + torch.rand(5, 6)
    out = torch.rand(2)
    torch.add(x(), 1, out=out.resize_(0))
    assert out.shape == (4, 4)


def test_an_op_without_a_fake_kernel_is_named(fake: FakeModel) -> None:
    @torch.library.custom_op("ctrace_test::no_fake", mutates_args=())
    def no_fake(value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    with pytest.raises(CallStoppedError, match="what ctrace_test::no_fake returns") as caught:
        no_fake(x())
    assert 'register_fake("ctrace_test::no_fake")' in caught.value.todo


class Scaled(torch.Tensor):
    """A quantized weight, as torchao has them: it wraps whole numbers and a scale."""

    whole: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def __new__(cls, whole: torch.Tensor, scale: torch.Tensor) -> "Scaled":
        made: Scaled = torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype)
        made.whole, made.scale = whole, scale
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale)
        plain = [each.whole.to(each.scale.dtype) * each.scale if isinstance(each, cls) else each for each in args]
        return func(*plain, **(kwargs or {}))


def test_quantized_weights_are_followed_into_what_they_wrap(fake: FakeModel) -> None:
    weight = torch.randn(1 << 16, 1 << 16)
    scale = weight.abs().amax(1, keepdim=True) / 127
    layer = nn.Linear(1 << 16, 1 << 16, bias=False)
    layer.weight = nn.Parameter(Scaled((weight / scale).round().to(torch.int8), scale), requires_grad=False)
    fake.made(layer, _module())
    assert isinstance(layer.weight, Scaled)
    result = layer(torch.randn(2, 1 << 16))
    assert type(result) is torch.Tensor
    assert has_no_memory(result)
    with pytest.raises(CallStoppedError):
        layer.weight.sum().item()
