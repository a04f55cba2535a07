"""How many aten ops a call dispatches, in eager and inside graphs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class OpCounter:
    """Counts dispatched aten ops, everywhere in a block or only inside graphs."""

    def __init__(self) -> None:
        self._in_graphs: list[int] | None = None

    @contextmanager
    def everywhere(self) -> Iterator[list[int]]:
        """Count every op of the block; the one number in the list is the count."""
        total = [0]
        with _dispatch_mode(total):
            yield total

    @contextmanager
    def in_graphs(self) -> Iterator[list[int]]:
        """Count the ops that wrapped graphs run in the block."""
        total = [0]
        self._in_graphs = total
        try:
            yield total
        finally:
            self._in_graphs = None

    def wrap(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        """Make the function that runs a graph count its ops while someone wants to know."""

        def run(*args: Any) -> Any:
            if self._in_graphs is None:
                return graph(*args)
            with _dispatch_mode(self._in_graphs):
                return graph(*args)

        return run


def _dispatch_mode(total: list[int]) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class _Count(TorchDispatchMode):
        supports_higher_order_operators = True  # a user's Triton kernel or a torch.cond in a graph is one of these

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            total[0] += getattr(func, "namespace", None) == "aten"
            return func(*args, **(kwargs or {}))

    return _Count()
