"""Copy a call's arguments, so that a second run can read and write them without touching the program's memory."""

from collections.abc import Callable, Iterable
from typing import Any


class CannotCopyError(Exception):
    """An argument cannot be copied; the message says why."""


class PrivateCopies:
    """Copies that alias each other as the arguments do: each storage is copied once, as a whole."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], device: Any = None) -> None:
        """Copy to a device, by default to the one that each argument is on.

        Raises:
            CannotCopyError: an argument cannot be copied with all of its memory, or the GPU has too little memory.
        """
        from torch.utils import _pytree

        leaves, self._spec = _pytree.tree_flatten((args, kwargs))
        self._pairs: dict[int, tuple[Any, Any]] = {}
        self._device = device
        # All checks before the first copy, so that a refusal has allocated nothing.
        _check_kinds(leaves)
        _check_memory(leaves, device)
        self._leaves = [self._copied(leaf) for leaf in leaves]
        self.on_gpu = any(_is_tensor(leaf) and leaf.is_cuda for leaf in self._leaves)
        self.args, self.kwargs = _pytree.tree_unflatten(self._leaves, self._spec)

    def restoring(self, written: Iterable[Any]) -> Callable[[], None]:
        """Return a function that resets the copies of some arguments to the originals' values."""
        from torch.utils import _pytree

        tensors = [leaf for leaf in _pytree.tree_leaves(list(written)) if _is_tensor(leaf)]
        # Arguments that share a storage share its copy, which is restored once.
        pairs = [self._pairs[key] for key in dict.fromkeys(map(_key, tensors))]

        def restore() -> None:
            for original, copy in pairs:
                copy.copy_(original)

        return restore

    def _copied(self, leaf: Any) -> Any:
        import torch

        if not _is_tensor(leaf):
            return leaf
        if _key(leaf) not in self._pairs:
            # A view of the whole storage as bytes: a kernel may read beside the tensor that it was given.
            original = torch.empty(0, dtype=torch.uint8, device=leaf.device).set_(leaf.untyped_storage())
            self._pairs[_key(leaf)] = original, original.to(self._device or leaf.device, copy=True)
        copy = self._pairs[_key(leaf)][1]
        empty = torch.empty(0, dtype=leaf.dtype, device=copy.device)
        return empty.set_(copy.untyped_storage(), leaf.storage_offset(), leaf.size(), leaf.stride())


def size_of(args: Iterable[Any]) -> int:
    """Return the bytes that copies of some arguments take."""
    return sum({_key(leaf): leaf.untyped_storage().nbytes() for leaf in args if _is_tensor(leaf)}.values())


def _is_tensor(leaf: Any) -> bool:
    import torch

    return isinstance(leaf, torch.Tensor)


def _key(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def _check_kinds(leaves: list[Any]) -> None:
    """Refuse what may lead to memory or states of the program: a TMA descriptor, a generator, any other object."""
    import torch

    plain = (bool, int, float, complex, str, bytes, type(None))
    settings = (torch.dtype, torch.device, torch.layout, torch.memory_format)
    for leaf in leaves:
        if not _is_tensor(leaf):
            if not isinstance(leaf, (*plain, *settings)):
                raise CannotCopyError(f"an argument is a {type(leaf).__name__}, which cannot be copied")
            continue
        is_plain = type(leaf) in (torch.Tensor, torch.nn.Parameter) and leaf.layout is torch.strided
        # The copy has the bytes of the storage, and would lack what such a view adds to them.
        if not is_plain or leaf.is_conj() or leaf.is_neg():
            raise CannotCopyError("an argument is not a plain tensor")


def _check_memory(leaves: list[Any], device: Any) -> None:
    import torch

    tensors = [leaf for leaf in leaves if _is_tensor(leaf)]
    is_to_gpu = any(torch.device(device or tensor.device).type == "cuda" for tensor in tensors)
    # The program goes on to allocate while the copies are alive.
    if is_to_gpu and size_of(tensors) > free_memory() // 2:
        raise CannotCopyError("not enough memory for a second copy of its arguments")


def free_memory() -> int:
    """Return the bytes that can still be allocated on the current GPU, including those that torch has cached."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    return int(free) + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
