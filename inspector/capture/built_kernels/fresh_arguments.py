"""Copy a call's arguments, so that a kernel can be launched many times without affecting the program."""

from collections.abc import Callable, Iterable
from typing import Any


class CannotCopyError(Exception):
    """An argument cannot be copied; the message says why."""


class Fresh:
    """Copies that alias each other as the arguments do: each storage is copied once, as a whole."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        from torch.utils import _pytree

        leaves, self._spec = _pytree.tree_flatten((args, kwargs))
        self._pairs: dict[int, tuple[Any, Any]] = {}
        _check_memory(leaves)
        self._leaves = [self._copied(leaf) for leaf in leaves]
        self.on_gpu = any(_is_tensor(leaf) and leaf.is_cuda for leaf in leaves)
        self.args, self.kwargs = _pytree.tree_unflatten(self._leaves, self._spec)

    def restoring(self, tensors: Iterable[Any]) -> Callable[[], None]:
        """Return a function that resets the copies of `tensors` to the originals' values."""
        pairs = [self._pairs[_key(tensor)] for tensor in tensors if _is_tensor(tensor)]

        def restore() -> None:
            for original, copy in pairs:
                copy.copy_(original)

        return restore

    def _copied(self, leaf: Any) -> Any:
        import torch

        if not _is_tensor(leaf):
            return leaf
        if _key(leaf) not in self._pairs:
            original = torch.empty(0, dtype=torch.uint8, device=leaf.device).set_(leaf.untyped_storage())
            self._pairs[_key(leaf)] = original, original.clone()
        storage = self._pairs[_key(leaf)][1].untyped_storage()
        empty = torch.empty(0, dtype=leaf.dtype, device=leaf.device)
        return empty.set_(storage, leaf.storage_offset(), leaf.size(), leaf.stride())


def _is_tensor(leaf: Any) -> bool:
    import torch

    return isinstance(leaf, torch.Tensor)


def _key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _check_memory(leaves: list[Any]) -> None:
    import torch

    tensors = [leaf for leaf in leaves if _is_tensor(leaf)]
    for tensor in tensors:
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
        if not plain or tensor.is_conj() or tensor.is_neg():
            raise CannotCopyError("an argument is not a plain tensor")
    size = sum({_key(tensor): tensor.untyped_storage().nbytes() for tensor in tensors}.values())
    if any(tensor.is_cuda for tensor in tensors) and size > free_memory() // 2:
        raise CannotCopyError("not enough memory for a second copy of its arguments")


def free_memory() -> int:
    """Return the bytes that can still be allocated on the current GPU, including those that torch has cached."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return int(free) + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
