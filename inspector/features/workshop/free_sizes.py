"""Make the leading size of a region free if the run captured it with fixed sizes.

A kernel for 32 rows usually computes any number of rows: only the length of its outermost loop says 32. That is so
where the size is the outermost dimension of every tensor that has it, and no reduction, cut or index depends on it.
Which dimensions grow together follows from the ops: an elementwise op makes its operands' dimensions equal, and so on.
"""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from math import gcd, prod

from msgspec.structs import replace

from ctrace.inspector.facts.kernel_facts import KernelCall
from ctrace.inspector.features.workshop.kernel_region import Region, RegionStep, RegionTensor

SYMBOL = "rows"
"""The symbol of the free size; no symbol of torch has this name."""
_REDUCING = frozenset(
    ("sum", "mean", "amax", "amin", "prod", "any", "var_mean", "var", "prepare_softmax_online", "argmax", "argmin",
     "all")
)  # fmt: skip
_VIEWS = frozenset(("view", "reshape", "_unsafe_view"))
_FIXED = frozenset(
    ("iota", "arange", "index", "gather", "scatter", "index_put", "as_strided", "select", "flip", "roll", "sort",
     "cumsum", "constant_pad_nd", "repeat", "slice_scatter", "select_scatter", "diagonal", "unbind", "split", "bmm",
     "mm", "addmm", "convolution", "max_pool2d_with_indices", "_low_memory_max_pool_with_offsets", "topk",
     "masked_scatter", "_low_memory_max_pool_offsets_to_indices", "scatter_add", "rev", "cumprod", "cummax", "cummin",
     "logcumsumexp", "transpose", "t", "unfold")
)  # fmt: skip
"""Ops whose result depends on sizes in other ways than those that `_Dimensions` knows."""

_Dim = tuple[str, int]
"""A dimension of a node's value: its name and the number of the dimension."""


def generalized(region: Region, call: KernelCall, source: str) -> tuple[Region, KernelCall]:
    """Return the region and the call with a free leading size, or unchanged if there is none."""
    # With symbols, torch has decided which sizes are free; these rules are for sizes that it has fixed.
    if call.symbols or any(not size.isdigit() for each in (*region.inputs, *region.outputs) for size in each.shape):
        return region, call
    found = _Dimensions(region).leading()
    if found is None:
        return region, call
    free, unit = found
    if not all(_is_outermost(each, free) for each in (*region.inputs, *region.outputs)):
        return region, call
    space = _space(region, free, unit, dict(call.numels), source)
    if space is None:
        return region, call
    # Only one direction of the loops grows: the others are what one row takes.
    numels = tuple(
        (name, f"{int(text) // unit}*{SYMBOL}" if name == f"{space}numel" else text) for name, text in call.numels
    )
    return _written(region, free, unit), replace(call, numels=numels, symbols={SYMBOL: unit})


class _Dimensions:
    """Finds which dimensions grow with the first dimension of the outputs."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._shapes: dict[str, tuple[int, ...]] = {
            each.name: tuple(map(int, each.shape)) for each in (*region.inputs, *region.outputs)
        }
        self._parent: dict[_Dim, _Dim] = {}
        self._fixed: set[_Dim] = set()
        self._of: dict[str, ast.Call] = {}

    def leading(self) -> tuple[dict[_Dim, int], int] | None:
        """Return the free dimensions with their sizes, and the greatest common divisor of these."""
        for step in self._region.steps:
            if not self._follow(step):
                return None
        # The first dimension of the first result is nearly always the batch; of size 1, nothing tells it from others.
        first = next((each for each in self._region.outputs if self._shapes[each.name]), None)
        if first is None or self._shapes[first.name][0] < 2:
            return None
        root = self._root((first.name, 0))
        if any(self._root(each) == root for each in self._fixed):
            return None
        free = {
            (name, at): shape[at]
            for name, shape in self._shapes.items()
            for at in range(len(shape))
            if self._root((name, at)) == root
        }
        # Sizes that grow together may be multiples of each other: 32 rows, and 32 * 8 where a view merges heads.
        return free, gcd(*free.values())

    def _root(self, dim: _Dim) -> _Dim:
        # Dimensions that must have one size are joined to sets, each with a root (union-find).
        while (above := self._parent.get(dim, dim)) != dim:
            dim = above
        return dim

    def _join(self, one: _Dim, other: _Dim) -> None:
        self._parent[self._root(one)] = self._root(other)

    def _fix(self, name: str, dims: Iterable[int] | None = None) -> None:
        self._fixed |= {(name, at) for at in (range(len(self._shapes[name])) if dims is None else dims)}

    def _follow(self, step: RegionStep) -> bool:
        """Note what an op says about dimensions; return whether its arguments are understood."""
        try:
            call = ast.parse(f"f({step.args})", mode="eval").body
            shape = tuple(map(int, step.shape))
        except (SyntaxError, ValueError):
            return False
        assert isinstance(call, ast.Call)
        if step.target == "operator.getitem":
            parent = call.args[0]
            if not isinstance(parent, ast.Name) or parent.id not in self._of:
                return False
            self._shapes[step.name] = shape
            # One of the results of an op such as var_mean, which reduces all of them alike.
            inner = self._of.get(self._named(parent.id), self._of[parent.id])
            return self._reduce(step.name, inner)
        self._of[step.name] = call
        if not step.dtype:  # several results: the rule applies to each `getitem`
            return step.target.split(".")[1] in _REDUCING
        self._shapes[step.name] = shape
        return self._rule(step, call, step.target.split(".")[1] if "." in step.target else step.target)

    def _rule(self, step: RegionStep, call: ast.Call, op: str) -> bool:
        inputs = [self._named(node.id) for node in ast.walk(call) if isinstance(node, ast.Name)]
        inputs = [each for each in inputs if each in self._shapes]
        if op in _FIXED:
            for each in (step.name, *inputs):
                self._fix(each)
            return True
        if op in _REDUCING:
            return self._reduce(step.name, call)
        if op in _VIEWS:
            return self._view(inputs[0], step.name)
        if op in ("permute", "expand", "unsqueeze", "squeeze", "slice", "cat", "embedding"):
            rule = getattr(self, f"_{op}")
            return bool(rule(step.name, call, inputs))
        return self._elementwise(step.name, inputs)

    def _named(self, node: str) -> str:
        return self._region.names.get(node, node)

    def _elementwise(self, name: str, inputs: Iterable[str]) -> bool:
        shape = self._shapes[name]
        for each in inputs:
            other = self._shapes[each]
            # Then it is no elementwise op, and no rule here says what it does.
            if len(other) > len(shape):
                return False
            for back in range(1, len(other) + 1):
                # From the back, as torch broadcasts; a size of 1 stays 1.
                if other[-back] == shape[-back]:
                    self._join((each, len(other) - back), (name, len(shape) - back))
                elif other[-back] == 1:
                    self._fix(each, [len(other) - back])
                else:
                    return False
        return True

    def _reduce(self, name: str, call: ast.Call) -> bool:
        first = call.args[0]
        if not isinstance(first, ast.Name):
            return False
        source, shape, result = self._named(first.id), self._shapes[self._named(first.id)], self._shapes[name]
        if len(call.args) > 1:
            dims = _integers(call.args[1])
        else:
            dims = list(range(len(shape)))
        if dims is None:
            return False
        reduced = {each % max(len(shape), 1) for each in dims} or set(range(len(shape)))  # none named: all
        # With another number of terms, the kernel would need another block size.
        self._fix(source, reduced)
        kept = [at for at in range(len(shape)) if at not in reduced]
        into = list(range(len(kept)))
        if len(result) == len(shape):  # with keepdim=True
            into = kept
            self._fix(name, reduced)
        for at, target in zip(kept, into, strict=True):
            self._join((source, at), (name, target))
        return True

    def _view(self, source: str, name: str) -> bool:
        one, other = self._shapes[source], self._shapes[name]
        # Without elements, any two shapes have the same product.
        if prod(one) != prod(other) or not prod(one):
            return False
        for left, right in _groups(one, other):
            # Of dimensions that a view merges or splits, only the outermost can grow without moving the others.
            outer_left, outer_right = _outermost(left, one), _outermost(right, other)
            self._fix(source, [at for at in left if at != outer_left])
            self._fix(name, [at for at in right if at != outer_right])
            if outer_left is not None and outer_right is not None:
                self._join((source, outer_left), (name, outer_right))
        return True

    def _permute(self, name: str, call: ast.Call, inputs: Sequence[str]) -> bool:
        order = None
        if len(call.args) > 1:
            order = _integers(call.args[1])
        if order is None:
            return False
        for at, source in enumerate(order):
            self._join((inputs[0], source % len(order)), (name, at))
        return True

    def _expand(self, name: str, _call: ast.Call, inputs: Sequence[str]) -> bool:
        return self._elementwise(name, inputs[:1])

    def _unsqueeze(self, name: str, call: ast.Call, inputs: Sequence[str]) -> bool:
        at = None
        if len(call.args) > 1:
            at = _integers(call.args[1])
        return at is not None and self._without(name, at[0] % len(self._shapes[name]), inputs[0])

    def _squeeze(self, name: str, call: ast.Call, inputs: Sequence[str]) -> bool:
        at = None
        if len(call.args) > 1:
            at = _integers(call.args[1])
        shape = self._shapes[inputs[0]]
        if at is None or len(shape) != len(self._shapes[name]) + 1:
            return False
        return self._without(inputs[0], at[0] % len(shape), name)

    def _without(self, longer: str, at: int, shorter: str) -> bool:
        # The dimension that comes or goes has a size of 1 whatever the batch is.
        self._fix(longer, [at])
        for dim in range(len(self._shapes[shorter])):
            self._join((shorter, dim), (longer, dim + (dim >= at)))
        return True

    def _slice(self, name: str, call: ast.Call, inputs: Sequence[str]) -> bool:
        at = _dimension(call)
        for dim in range(len(self._shapes[name])):
            if dim == at % len(self._shapes[name]):
                self._fix(name, [dim])
                self._fix(inputs[0], [dim])
            else:
                self._join((inputs[0], dim), (name, dim))
        return True

    def _cat(self, name: str, call: ast.Call, inputs: Sequence[str]) -> bool:
        at = _dimension(call)
        for each in inputs:
            for dim in range(len(self._shapes[name])):
                if dim == at % len(self._shapes[name]):
                    self._fix(each, [dim])
                    self._fix(name, [dim])
                else:
                    self._join((each, dim), (name, dim))
        return True

    def _embedding(self, name: str, _call: ast.Call, inputs: Sequence[str]) -> bool:
        table, index = inputs[0], inputs[1]
        self._fix(table)  # the rows are the vocabulary, the columns the last dimension of the result
        for dim in range(len(self._shapes[index])):
            self._join((index, dim), (name, dim))
        self._fix(name, [len(self._shapes[name]) - 1])
        return True


def _dimension(call: ast.Call) -> int:
    """Return the dimension that a call names behind its tensors, which is 0 if it names none."""
    if len(call.args) < 2:
        return 0
    numbers = _integers(call.args[1])
    if not numbers:
        return 0
    return numbers[0]


def _integers(node: ast.expr) -> list[int] | None:
    try:
        found = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    if not isinstance(found, list | tuple):
        found = [found]
    if all(type(each) is int for each in found):
        return list(found)
    return None


def _outermost(dims: list[int], shape: Sequence[int]) -> int | None:
    """Return the first dimension of a size other than 1, or the first one; None: there is none."""
    for at in dims:
        if shape[at] != 1:
            return at
    if dims:
        return dims[0]
    return None


def _groups(one: Sequence[int], other: Sequence[int]) -> Iterable[tuple[list[int], list[int]]]:
    """Split the dimensions of a view into groups with equal products."""
    left = right = 0
    while left < len(one) or right < len(other):
        # A side that is at its end goes on with sizes of 1.
        first, a = [], 1
        if left < len(one):
            first, a = [left], one[left]
        second, b = [], 1
        if right < len(other):
            second, b = [right], other[right]
        left, right = left + len(first), right + len(second)
        while a != b:
            if a < b and left < len(one):
                a *= one[left]
                first.append(left)
                left += 1
            elif right < len(other):
                b *= other[right]
                second.append(right)
                right += 1
            else:
                break
        yield first, second


def _is_outermost(tensor: RegionTensor, free: Mapping[_Dim, int]) -> bool:
    """Whether a tensor has no free dimension, or has one that no stride depends on."""
    dims = [at for at in range(len(tensor.shape)) if (tensor.name, at) in free]
    if not dims:
        return True
    # With two dimensions that grow, the stride of one depends on the size of the other.
    if len(dims) > 1 or not all(each.isdigit() for each in tensor.stride):
        return False
    # Of a dimension of size 1, torch may write any stride: it moves nothing.
    strides = [int(each) for at, each in enumerate(tensor.stride) if int(tensor.shape[at]) > 1]
    return int(tensor.stride[dims[0]]) == max(strides, default=0)


_OUTER = re.compile(r"^\s*(\w+) = ([xyz])index(?: // (\d+))?$", re.MULTILINE)


def _space(region: Region, free: Mapping[_Dim, int], unit: int, numels: Mapping[str, str], source: str) -> str | None:
    """Return the direction of the kernel's loops that the free dimension is the outermost part of: x, y or z."""
    outputs = {each.name: each for each in region.outputs}
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    text = ast.unparse(tree)
    # `x1 = xindex // 64` counts rows to the end of the loop; `x0 = xindex % 64` begins again in each row.
    outer = {name: (space, int(by or 1)) for name, space, by in _OUTER.findall(text)}
    spaces: set[frozenset[str]] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("tl.store", "tl.load"):
            continue
        names = [each.id for each in ast.walk(node.args[0]) if isinstance(each, ast.Name)]
        pointer = next((each for each in names if each in region.pointers[0]), None)
        # Each loop stores; what is loaded may stay the same for all rows, such as a weight.
        if pointer is None or ast.unparse(node.func) == "tl.load":
            continue
        tensor = outputs.get(region.pointers[0][pointer][1])
        if tensor is None:
            return None
        dim = next((at for at in range(len(tensor.shape)) if (tensor.name, at) in free), None)
        if dim is None:
            return None  # a result without the free size would be computed from a part of the rows
        stride = int(tensor.stride[dim])
        coefficients = _coefficients(node.args[0])
        found = {
            outer[name][0]
            for name, coefficient in coefficients.items()
            if name in outer
            and coefficient
            and stride % coefficient == 0
            and numels.get(f"{outer[name][0]}numel", "").isdigit()
            and int(numels[f"{outer[name][0]}numel"]) % (outer[name][1] * unit) == 0
            # A variable counts the rows only if its steps lead over exactly the memory that the dimension takes.
            and coefficient * int(numels[f"{outer[name][0]}numel"]) // outer[name][1] == stride * int(tensor.shape[dim])
        }
        spaces.add(frozenset(found))
    if len(spaces) == 1 and len(next(iter(spaces))) == 1:
        return next(iter(next(iter(spaces))))
    return None


def _coefficients(node: ast.expr) -> dict[str, int]:
    """Return the factor of each variable in a sum of products; a variable in any other form is left out."""
    found: dict[str, int] = {}
    terms = [node]
    while terms:
        term = terms.pop()
        match term:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                terms += [left, right]
            # Inductor prints the factor in front: `64*x1`.
            case ast.BinOp(left=ast.Constant(value=int() as factor), op=ast.Mult(), right=ast.Name(id=name)):
                found[name] = factor
            case ast.Name(id=name):
                found[name] = 1
    return found


def _written(region: Region, free: Mapping[_Dim, int], unit: int) -> Region:
    """Write the free sizes in terms of the symbol, also where the ops take them as arguments."""

    def shape(name: str, sizes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_scaled(int(size), unit) if (name, at) in free else size for at, size in enumerate(sizes))

    def tensor(each: RegionTensor) -> RegionTensor:
        return replace(each, shape=shape(each.name, each.shape))

    sizes = dict(region.sizes)
    steps = []
    for step in region.steps:
        new = shape(step.name, step.shape)
        steps.append(replace(step, shape=new, args=_arguments(step, new, sizes)))
    return replace(
        region,
        inputs=tuple(map(tensor, region.inputs)),
        outputs=tuple(map(tensor, region.outputs)),
        steps=tuple(steps),
        sizes=sizes,
    )


def _scaled(size: int, unit: int) -> str:
    if size == unit:
        return SYMBOL
    return f"{size // unit}*{SYMBOL}"


def _arguments(step: RegionStep, shape: tuple[str, ...], sizes: dict[str, str]) -> str:
    """Replace the list of sizes in an op's arguments by the op's new shape."""
    if "." in step.target:
        op = step.target.split(".")[1]
    else:
        op = step.target
    if op in (*_VIEWS, "expand"):
        at = 1
    elif op == "full":
        at = 0
    else:
        return step.args
    if shape == step.shape:
        return step.args
    call = ast.parse(f"f({step.args})", mode="eval").body
    assert isinstance(call, ast.Call)
    known = call.args[at]
    if not isinstance(known, ast.List) or len(known.elts) != len(shape):
        return step.args
    for number, (size, old) in enumerate(zip(shape, step.shape, strict=True)):
        element = known.elts[number]
        # A size of -1 is already whatever is left.
        if size != old and isinstance(element, ast.Constant) and element.value == int(old):
            name = f"size_of_{step.name}_{number}"
            sizes[name] = size
            known.elts[number] = ast.Name(name, ast.Load())
    return ast.unparse(call)[2:-1]
