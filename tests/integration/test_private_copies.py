"""Copies of arguments for a second run, and the times of launches on these copies, in this process."""

from typing import Any

import pytest

from ctrace.inspector.capture.isolation.private_copies import CannotCopyError, PrivateCopies, size_of
from ctrace.inspector.capture.isolation.second_run import RepeatableLaunch, second_run, stored
from ctrace.inspector.capture.kernels.current_gpu import timed

torch = pytest.importorskip("torch")


def test_copies_have_the_same_values_and_sharing() -> None:
    base = torch.arange(12.0)
    left, right = base[2:8].view(2, 3).t(), base[4:]
    copies = PrivateCopies((left, [right, 3]), {"out": base, "name": "x"})
    copied, (other, three) = copies.args
    assert (copied.stride(), copied.storage_offset(), three, copies.kwargs["name"]) == (left.stride(), 2, 3, "x")
    assert torch.equal(copied, left)
    copied.zero_()
    assert torch.equal(other[:4], torch.zeros(4))  # the same memory, among the copies
    assert torch.equal(copies.kwargs["out"][8:], base[8:])
    assert torch.equal(base, torch.arange(12.0))
    assert not copies.on_gpu
    assert size_of([left, right, base]) == 48


def test_written_arguments_are_restored() -> None:
    kept, written, several = torch.ones(3), torch.ones(3), [torch.ones(2), torch.ones(2)]
    copies = PrivateCopies((kept, written, several), {})
    restore = copies.restoring([written, 3, several])
    for copy in (*copies.args[:2], *copies.args[2]):
        copy.add_(1)
    restore()
    assert [copy[0].item() for copy in (*copies.args[:2], *copies.args[2])] == [2, 1, 1, 1]


def test_a_parameter_and_an_empty_tensor() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    with torch.no_grad():
        first, second = PrivateCopies((parameter, torch.empty(0, 3)), {}).args
    assert torch.equal(first, torch.ones(2))
    assert second.shape == (0, 3)


class Descriptor:
    """Refers to memory of the program, as a TMA descriptor does."""

    base = torch.ones(2)


@pytest.mark.parametrize(
    "argument",
    [
        torch.ones(2).to_sparse(),
        torch.ones(2, dtype=torch.complex64).conj(),
        Descriptor(),
        torch.Generator(),
        lambda: None,
    ],
)
def test_arguments_that_cannot_be_copied(argument: Any) -> None:
    with pytest.raises(CannotCopyError):
        PrivateCopies((argument,), {})


def test_arguments_are_restored_before_each_launch() -> None:
    seen: list[str] = []
    seconds, launches = timed(
        RepeatableLaunch(lambda: seen.append("launch"), lambda: seen.append("restore"), on_gpu=False)
    )
    assert seconds >= 0
    assert launches >= 3
    assert seen == ["launch", *["restore", "launch"] * launches]


def test_a_second_run_changes_nothing() -> None:
    x, generator = torch.arange(4.0, requires_grad=True), torch.get_rng_state()
    with second_run((x.detach(),), {}) as again:
        (copy,) = again.args
        copy.add_(torch.rand(4))
        assert not torch.is_grad_enabled()
    assert torch.equal(x.detach(), torch.arange(4.0))
    assert torch.equal(torch.get_rng_state(), generator)
    assert torch.is_grad_enabled()


def test_modes_of_the_program_do_not_see_a_second_run() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(3)
    with Watching():
        with second_run((x,), {}) as again:
            again.args[0].mul_(2)
        assert not seen
        x.mul_(2)
    assert seen == ["aten.mul_.Tensor"]


def test_under_the_profiler_nothing_runs_again() -> None:
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        pytest.raises(CannotCopyError, match="profiled"),
        second_run((), {}),
    ):
        pass


def test_stored_copies_do_not_keep_the_originals() -> None:
    import weakref

    x = torch.ones(3)
    storage = weakref.ref(x.untyped_storage())
    copies = stored([x, x[1:], 5, None])
    assert [copies[2:], torch.equal(copies[0][1:], copies[1])] == [[5, None], True]
    assert x._use_count() == 1
    del x
    assert storage() is None
