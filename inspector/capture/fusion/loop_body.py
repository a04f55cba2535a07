"""Count what the loop of a generated node computes, value by value.

A `LoopBody` (2.13, _inductor/loop_body.py:94) holds FX graphs of calls of `ops`. Walk them without running them,
because running one rewrites all its index expressions. Values are numbered: equal values of loops of equal sizes have
equal keys.
"""

from collections.abc import Hashable
from typing import Any

from msgspec import Struct

Computed = dict[Hashable, int]
"""FLOPs by value."""
Numbers = dict[Hashable, int]
"""Numbers of the values in one graph part."""

_FREE = frozenset(
    (
        "load", "load_seed", "constant", "index_expr", "value_expr", "identity", "where", "masked", "maximum",
        "minimum", "to_dtype", "to_dtype_bitcast", "floor", "ceil", "round", "trunc", "rand", "randn", "sort",
        "bucketize",
    )
)  # fmt: skip
"""Ops that return floating-point values without arithmetic. Ops such as `lt` are known by their result dtype."""
_WITHOUT_VALUE = frozenset(("store", "store_reduction", "partial_accumulate", "device_assert_async", "check_bounds"))
_REDUCTIONS = {"sum": 1, "prod": 1, "dot": 2, "online_softmax_reduce": 3, "welford_reduce": 6, "welford_combine": 10}


def _flops(name: str) -> int:
    """Return the floating-point operations of one element of an op."""
    if name in _FREE:
        return 0
    return 2 if name == "fma" else 1


class _Value(Struct, frozen=True):
    """A value of the loop; torch's rules read its `dtype`."""

    key: Hashable
    dtype: Any


def computed(body: Any, elements: int, numbers: Numbers) -> Computed:
    """Count what one node's loop computes for all its elements."""
    walk = _Walk(body, numbers)
    walk.block(body.root_block)
    return {(elements, key): times * elements for key, times in walk.counts.items()}


class _Walk:
    def __init__(self, body: Any, numbers: Numbers) -> None:
        from torch._inductor.dtype_propagation import DtypePropagationOpsHandler

        self._body, self._numbers = body, numbers
        self._rules = DtypePropagationOpsHandler()
        self._indirect: dict[str, Hashable] = {}
        self.counts: dict[Hashable, int] = {}

    def block(self, block: Any) -> Any:
        """Walk one graph and return its value."""
        values: dict[Any, Any] = {}
        for node in block.graph.nodes:
            if node.op == "output":
                return self._resolve(node.args[0], values)
            if node.op != "placeholder":
                values[node] = self._step(node, values)
        return None

    def _step(self, node: Any, values: dict[Any, Any]) -> Any:
        args = [self._resolve(arg, values) for arg in node.args]
        if node.op == "call_function":  # operator.getitem
            return args[0][args[1]] if isinstance(args[0], tuple) else args[0]
        if node.op == "call_module":
            return self._module(str(node.target), args)
        kwargs = {name: self._resolve(arg, values) for name, arg in node.kwargs.items()}
        return self._call(str(node.target), args[1:], kwargs)

    def _resolve(self, arg: Any, values: dict[Any, Any]) -> Any:
        if isinstance(arg, list | tuple):
            return tuple(self._resolve(each, values) for each in arg)
        return values.get(arg, arg) if hasattr(arg, "all_input_nodes") else arg

    def _module(self, name: str, args: list[Any]) -> Any:
        if name == "get_index":
            return self._index(args[0])
        if name.startswith("masked_subblock"):
            inner = self.block(self._body.subblocks[name])
            return _Value(("masked", *map(_key, (args[0], inner, args[1]))), inner.dtype)
        if name.startswith("scan"):
            dtypes, scanned = args
            return self._add(("scan", _key(scanned)), tuple(dtypes), 1)
        self._indirect[name.removeprefix("set_")] = _key(args[0])
        return None

    def _index(self, name: str) -> Hashable:
        """Return an index expression with the values that it depends on."""
        index = self._body.indexing_exprs[name]
        if not self._indirect:
            return (index,)
        # A set of symbols has no order, and the key needs one.
        used = sorted(str(symbol) for symbol in index.free_symbols if str(symbol) in self._indirect)
        return (index, *(self._indirect[symbol] for symbol in used))

    def _call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name in _WITHOUT_VALUE:
            self._stored(name, args, kwargs)
            return None
        dtype = self._dtype(name, args, kwargs)
        key = (name, *map(_key, args), *map(_key, kwargs.items()))
        if name == "reduction":
            return self._add(key, dtype, _REDUCTIONS.get(args[2], 0))
        return self._add(key, dtype, _flops(name))

    def _dtype(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name == "load":
            from torch._inductor.virtualized import V

            return V.graph.get_dtype(args[0])
        if name == "reduction":
            if args[2].startswith(("welford", "online")):
                return (args[0],) * 3
            return args[0]
        return getattr(self._rules, name)(*args, **kwargs)

    def _stored(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        if name == "store" and "atomic_add" in (kwargs.get("mode"), *args[3:]):
            self._add(("atomic_add", *map(_key, args)), args[2].dtype, 1)
        if name == "partial_accumulate":  # a reduction that shares its loop with a reduction over other dimensions
            self._add(("reduction", *map(_key, args[1:3])), args[2].dtype, _REDUCTIONS.get(args[1], 0))

    def _add(self, key: Hashable, dtype: Any, times: int) -> Any:
        """Record the value, and count it if it is floating point."""
        number = self._numbers.setdefault(key, len(self._numbers))
        is_float = any(each.is_floating_point or each.is_complex for each in _each(dtype))
        if times and is_float:
            self.counts[number] = times
        if isinstance(dtype, tuple):
            return tuple(_Value((number, place), each) for place, each in enumerate(dtype))
        return _Value(number, dtype)


def _each(dtype: Any) -> tuple[Any, ...]:
    return dtype if isinstance(dtype, tuple) else (dtype,)


def _key(value: Any) -> Hashable:
    if isinstance(value, _Value):
        return value.key
    return tuple(map(_key, value)) if isinstance(value, list | tuple) else value
