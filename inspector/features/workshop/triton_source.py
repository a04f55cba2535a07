"""Turn Inductor's source of a kernel into plain Triton that a person can read and change.

Inductor writes for its own launcher: sizes are constants in the body, masks are left out where its block sizes divide
the sizes, one pointer may stand for an input and an output, and decorators hold the configuration. Here, sizes are
arguments, every access along x, y and z has its mask, so that any block size is right, and each tensor has one pointer.
The configurations are those that Triton compiled in the run, else a few that suit the kernel's sizes.

Temporaries, which Inductor numbers, get names, and constants stand where they are used.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.built import Built
from ctrace.inspector.features.workshop.size_expressions import SEE_DUMP, RefusalError
from ctrace.inspector.features.workshop.triton_helpers import replaced

_MOST = 4096
"""The most elements of a block in a guessed configuration."""
_TEMPORARY = re.compile(r"_?tmp\d+(?:_\w+)?$")
_SIGNS = {
    ast.Add: "added", ast.Sub: "difference", ast.Mult: "product", ast.Div: "quotient", ast.FloorDiv: "quotient",
    ast.Mod: "remainder", ast.BitAnd: "both", ast.BitOr: "either", ast.BitXor: "differ",
}  # fmt: skip
_CALLS = {
    "where": "chosen", "broadcast_to": "spread", "full": "constant", "load": "loaded", "maximum": "larger",
    "minimum": "smaller", "max2": "largest", "min2": "smallest", "sum": "total", "promote_to_tensor": "value",
    "reshape": "reshaped", "sigmoid": "sigmoid",
}  # fmt: skip
_PLAIN = (ast.Add, ast.Sub, ast.Mult, ast.Div)


class Config(Struct, frozen=True):
    """One configuration of a kernel."""

    blocks: Mapping[str, int]
    warps: int
    stages: int


def configs_of(
    built: Iterable[Built], blocks: tuple[str, ...], hints: Mapping[object, object], fixed: Mapping[str, int]
) -> tuple[Config, ...]:
    """Return the configurations of a kernel with these block sizes; `hints` has the sizes at compile time."""
    found = {
        (tuple(sorted(each.blocks.items())), each.warps, each.stages): each
        for each in built
        if set(blocks) <= set(each.blocks)
    }
    if found:
        return tuple(
            Config({name: each.blocks[name] for name in blocks}, each.warps, max(each.stages, 1))
            for each in found.values()
        )
    sizes = {str(key).rstrip("_").upper(): value for key, value in hints.items() if isinstance(value, int)}
    return tuple(_guessed(blocks, sizes, fixed))


def _guessed(blocks: tuple[str, ...], sizes: Mapping[str, int], fixed: Mapping[str, int]) -> Iterable[Config]:
    if not blocks:
        return [_config({}, 4)]
    if any(each.startswith("R") for each in (*blocks, *fixed)):
        return _reductions(blocks, sizes, fixed)
    if blocks == ("XBLOCK",):
        return [_config({"XBLOCK": size}, 8 if size == 1024 else 4) for size in (256, 512, 1024)]
    # A kernel over two dimensions often transposes: square blocks, and long ones along either side.
    shapes = ((32, 32), (64, 64), (16, 256), (256, 16))
    return [_config({name: (*shape, 1)[at] for at, name in enumerate(blocks)}, 4) for shape in shapes]


def _reductions(blocks: tuple[str, ...], sizes: Mapping[str, int], fixed: Mapping[str, int]) -> list[Config]:
    found = []
    lengths: tuple[int, ...] = (512, 1024, 2048)
    if across := fixed.get("R0_BLOCK", 0):  # a persistent reduction, whose whole row is one block
        lengths = (across,)
    for rows in (1, 8, 32):
        for along in lengths:
            along = min(along, _power(sizes.get("R0", along)))
            if rows == 1 or rows * along <= _MOST:
                chosen = {"XBLOCK": rows, "R0_BLOCK": along}
                found.append(_config({name: chosen.get(name, 1) for name in blocks}, 8 if along > 1024 else 4))
    return list({str(each): each for each in found}.values())  # short rows make several of them equal


def _config(blocks: dict[str, int], warps: int) -> Config:
    return Config(blocks, warps, 1)


def _power(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


_GRIDS = ("Grid1D", "Grid2D", "Grid3D", "Grid2DWithYZOverflow")
_SPACES = ("x", "y", "z")
_REDUCED = ("r0_", "r1_")
_INDEXES = ("xindex", "yindex", "zindex", "r0_index", "r1_index")
_STORES = ("tl.store", "tl.atomic_add", "tl.atomic_max", "tl.atomic_min")
_ATOMIC = re.compile(r"\btl\.atomic_\w+|\btriton_helpers\.\w*atomic\w*")
_RANDOM = re.compile(r"\btl\.rand\w*|\btriton_helpers\.rand\w*|\btl\.philox\w*")


class TritonKernel(Struct, frozen=True):
    """A kernel as plain Triton."""

    body: tuple[tuple[int, str], ...]
    """Lines of the function's body, with their lines in Inductor's source, from 1; 0: of no single line."""
    parameters: tuple[str, ...]
    """Names in the order of the signature, without the block sizes."""
    blocks: tuple[str, ...]
    """The block sizes that the configuration sets, such as `XBLOCK`."""
    fixed: Mapping[str, int]
    """Block sizes that the body sets."""
    configs: tuple[Config, ...]
    grid: str
    """The class of Inductor's grid, such as `Grid1D`."""
    helpers: tuple[str, ...]
    """The helper functions that the body calls, in order of definition."""
    imports: tuple[str, ...]
    functions: tuple[str, ...] = ()
    """Functions that Inductor defines beside the kernel."""


def plain_triton(
    source: str, name: str, pointers: Mapping[str, tuple[str, str]], built: Iterable[Built] = (), *, adds: bool = False
) -> TritonKernel:
    """Rewrite a kernel; `pointers` has, for each pointer, the names of the tensors that it reads and writes.

    With `adds`, it may add atomically, because another kernel prepares the memory; then it has one configuration, since
    Triton would run it several times to choose.

    Raises:
        RefusalError: the kernel uses what plain Triton, or an op without side effects, cannot do.
    """
    if _ATOMIC.search(source) and not adds:
        raise RefusalError("it adds with atomics, so its result depends on memory that it must find zeroed", SEE_DUMP)
    if _RANDOM.search(source):
        raise RefusalError(
            "it generates random numbers, which no definition in PyTorch operators repeats",
            "eject a kernel without dropout: model.eval(), or p=0",
        )
    kernel = _Rewriter(source, name, pointers).kernel(tuple(built))
    if adds:  # each trial would add to the same memory
        return replace(kernel, configs=kernel.configs[:1])
    return kernel


def _decorator(function: ast.FunctionDef) -> ast.Call | None:
    """Return the call of `triton_heuristics` above a kernel."""
    for each in function.decorator_list:
        if isinstance(each, ast.Call) and ast.unparse(each.func).startswith("triton_heuristics."):
            return each
    return None


def _literal(call: ast.Call, keyword: str, key: str = "") -> object:
    """Return a literal argument of a call, or one value of a dictionary that need not be literal; None if absent."""
    for each in call.keywords:
        if each.arg == keyword:
            node: ast.expr | None = each.value
            if key and isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                node = next(
                    (value for name, value in pairs if isinstance(name, ast.Constant) and name.value == key), None
                )
            try:
                if node is not None:
                    return ast.literal_eval(node)
                return None
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return None
    return None


class _Rewriter:
    def __init__(self, source: str, name: str, pointers: Mapping[str, tuple[str, str]]) -> None:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise RefusalError("its source is not valid Python", SEE_DUMP) from None
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        kernels = [node for node in functions if _decorator(node) is not None]
        if len(kernels) != 1:
            raise RefusalError("its source does not have exactly one kernel of Inductor", SEE_DUMP)
        self._function = kernels[0]
        self._beside = [node for node in functions if node is not self._function]
        self._pointers = pointers
        self._name = name

    def kernel(self, built: tuple[Built, ...]) -> TritonKernel:
        heuristics = _decorator(self._function)
        assert heuristics is not None
        grid = _literal(heuristics, "inductor_meta", "grid_type")
        if grid not in _GRIDS:
            raise RefusalError(f"its grid, {grid}, needs Inductor's launcher", SEE_DUMP)
        parameters = [each.arg for each in self._function.args.args]
        # The order of the steps matters: masks are found by Inductor's names, which `readable` then changes.
        body = self._without_sizes(self._function.body, set(parameters))
        # Block sizes are the parameters in capitals.
        sizes = {each for each in parameters if each not in self._pointers and not each.isupper()}
        body = [_Casts(sizes).visit(each) for each in body]
        helpers, imports = replaced([*body, *self._beside])
        body = _Masks(body).fixed()
        body = self._split(body)
        body = readable(body)
        fixed = _constants(body)
        blocks = tuple(each for each in parameters if each.isupper())
        # Such as RSPLIT of a cooperative reduction.
        unknown = [each for each in blocks if each not in ("XBLOCK", "YBLOCK", "ZBLOCK", "R0_BLOCK", "R1_BLOCK")]
        if unknown:
            raise RefusalError(f"it takes {unknown[0]}, which Inductor's launcher computes", SEE_DUMP)
        hints = _literal(heuristics, "size_hints")
        return TritonKernel(
            body=tuple(_lines(body)),
            parameters=self._parameters(parameters, body),
            blocks=blocks,
            fixed=fixed,
            configs=configs_of(built, blocks, hints if isinstance(hints, dict) else {}, fixed),
            grid=str(grid),
            helpers=helpers,
            imports=imports,
            functions=tuple(f"@triton.jit\n{_undecorated(each)}" for each in self._beside),
        )

    def _without_sizes(self, body: list[ast.stmt], parameters: set[str]) -> list[ast.stmt]:
        """Drop statements that set a parameter to the size at compile time, as in `xnumel = 4096`, and texts."""
        return [
            each
            for each in body
            # As arguments, the sizes can be others than those of the run.
            if not (
                isinstance(each, ast.Assign)
                and isinstance(each.targets[0], ast.Name)
                and each.targets[0].id in parameters
                and isinstance(each.value, ast.Constant)
            )
            and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        ]

    def _split(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Name each pointer after its tensor; a pointer that is read and then written becomes two."""
        # In the order in which they run: what is loaded behind a store is the new value.
        stored: set[str] = set()
        for node in _in_order(body):
            if ast.unparse(node.func) in _STORES:
                stored |= self._rename(node, set(self._pointers))
            elif ast.unparse(node.func) == "tl.load":
                self._rename(node, stored)
        body = [_Scalars(self._scalars(), self._pointers).visit(each) for each in body]
        left = {
            node.id for each in body for node in ast.walk(each) if isinstance(node, ast.Name)
        } & self._pointers.keys()
        if left:
            raise RefusalError(f"it uses {sorted(left)[0]} for more than loads and stores", SEE_DUMP)
        return body

    def _scalars(self) -> set[str]:
        """Return the parameters that are numbers, not pointers: zero-dimensional tensors on the CPU."""
        heuristics = _decorator(self._function)
        types = None
        if heuristics is not None:
            types = _literal(heuristics, "triton_meta", "signature")
        if not isinstance(types, dict):
            types = {}
        # Triton writes a pointer's type with a star: `*fp32`.
        return {name for name in self._pointers if not str(types.get(name, "*")).startswith("*")}

    def _rename(self, call: ast.Call, stored: set[str]) -> set[str]:
        """Rename the pointers of an access; those in `stored` hold the new value."""
        found = set()
        for node in ast.walk(call.args[0]):
            if isinstance(node, ast.Name) and node.id in self._pointers:
                found.add(node.id)
                tensor = self._written(node.id) if node.id in stored else self._read(node.id)
                node.id = f"{tensor}_ptr"
        return found

    def _read(self, pointer: str) -> str:
        read, written = self._pointers[pointer]
        # A pointer that is only written may be loaded in a later loop.
        if not read and not written:
            raise RefusalError(f"ctrace does not know which value {pointer} points to", SEE_DUMP)
        if not read:
            raise RefusalError(f"it reads {pointer} before it writes it", SEE_DUMP)
        return read

    def _written(self, pointer: str) -> str:
        written = self._pointers[pointer][1]
        if not written:
            raise RefusalError(f"ctrace does not know which value {pointer} points to", SEE_DUMP)
        return written

    def _parameters(self, parameters: list[str], body: list[ast.stmt]) -> tuple[str, ...]:
        """Return the parameters that the body uses: pointers of inputs, pointers of outputs, sizes."""
        used = {node.id for each in body for node in ast.walk(each) if isinstance(node, ast.Name)}
        pairs = [self._pointers[each] for each in parameters if each in self._pointers]
        # Inputs before outputs, as the operator around the kernel passes them.
        named = [f"{read}_ptr" for read, _ in pairs if read] + [f"{written}_ptr" for _, written in pairs if written]
        sizes = [each for each in parameters if each not in self._pointers and not each.isupper()]
        return tuple(dict.fromkeys(each for each in (*named, *sizes) if each in used))


class _Casts(ast.NodeTransformer):
    """Writes `tl.cast(ks0, dtype)` for `ks0.to(dtype)`: Triton makes a constant of a size of 1, which has no `to`."""

    def __init__(self, sizes: set[str]) -> None:
        self._known = {*sizes, "tl", "triton_helpers"}
        self._sizes = sizes

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "to" or len(node.args) != 1 or node.keywords:
            return node
        names = {each.id for each in ast.walk(node.func.value) if isinstance(each, ast.Name)}
        if not names & self._sizes or not names <= self._known:
            return node
        cast = ast.Attribute(ast.Name("tl", ast.Load()), "cast", ast.Load())
        return ast.copy_location(ast.Call(cast, [node.func.value, *node.args], []), node)


class _Scalars(ast.NodeTransformer):
    """Loads a number from memory on the GPU that Inductor's wrapper would pass as an argument."""

    def __init__(self, names: set[str], pointers: Mapping[str, tuple[str, str]]) -> None:
        self._names = names
        self._pointers = pointers

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._names or not self._pointers[node.id][0]:
            return node
        return ast.copy_location(ast.parse(f"tl.load({self._pointers[node.id][0]}_ptr)", mode="eval").body, node)


def _undecorated(function: ast.FunctionDef) -> str:
    function.decorator_list = []
    return ast.unparse(function)


def _in_order(body: list[ast.stmt]) -> list[ast.Call]:
    """Return the calls in statements in the order of their lines."""
    nodes = [node for each in body for node in ast.walk(each) if isinstance(node, ast.Call)]
    # A load inside the expression that a store writes comes first.
    return sorted(nodes, key=lambda node: (node.lineno, ast.unparse(node.func) in _STORES))


def _constants(body: list[ast.stmt]) -> dict[str, int]:
    """Return the block sizes that the body sets."""
    return {
        each.target.id: each.value.value
        for each in body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and isinstance(each.value, ast.Constant)
        and type(each.value.value) is int
    }


def _lines(body: list[ast.stmt], indent: str = "    ") -> Iterable[tuple[int, str]]:
    for each in body:
        if isinstance(each, ast.For):
            yield each.lineno, f"{indent}for {ast.unparse(each.target)} in {ast.unparse(each.iter)}:"
            yield from _lines(each.body, indent + "    ")
        else:
            for line in ast.unparse(each).split("\n"):
                yield getattr(each, "lineno", 0), indent + line


class _Masks:
    """Restores the masks along x, y and z that Inductor left out."""

    def __init__(self, body: list[ast.stmt]) -> None:
        self._body = body
        self._spaces: dict[str, set[str]] = {}
        """For each variable, the directions in which it varies."""
        self._known: set[str] = set()
        """The directions that have a mask."""

    def fixed(self) -> list[ast.stmt]:
        for each in self._body:
            self._masked(each)
        for _ in range(2):  # a loop's variables also depend on later statements
            for each in self._body:
                self._follow(each)
        for each in self._body:
            for node in ast.walk(each):
                if isinstance(node, ast.Call):
                    self._fix(node)
        return self._body

    def _masked(self, statement: ast.stmt) -> None:
        """Make `xmask = xindex < xnumel` of any mask along x, y or z."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name in ("r0_mask", "r1_mask"):
                    self._known.add(name[: -len("mask")])
                elif name in ("xmask", "ymask", "zmask"):
                    self._known.add(name[0])
                    # Inductor writes `xmask = tl.full([XBLOCK], True, tl.int1)` where its sizes need no mask.
                    node.value = ast.copy_location(
                        ast.parse(f"{name[0]}index < {name[0]}numel", mode="eval").body, node.value
                    )

    def _follow(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                found = self._of(node.value)
                for target in node.targets:
                    for name in ast.walk(target):
                        if isinstance(name, ast.Name):
                            at_start: set[str] = set()
                            if name.id in _INDEXES:
                                at_start = {name.id[: -len("index")]}
                            self._spaces[name.id] = self._spaces.get(name.id, set()) | found | at_start

    def _of(self, expression: ast.AST) -> set[str]:
        return {
            space
            for node in ast.walk(expression)
            if isinstance(node, ast.Name)
            for space in self._spaces.get(node.id, ())
        }

    def _fix(self, call: ast.Call) -> None:
        function = ast.unparse(call.func)
        if function in ("tl.load", *_STORES):
            # `tl.load(pointer, mask)`, but `tl.store(pointer, value, mask)`.
            at = 1 if function == "tl.load" else 2
            if len(call.args) > at:
                spaces = self._of(call.args[0])
                # Triton's interpreter does not broadcast the mask of an atomic operation.
                reduced = []
                if function in _STORES[1:]:
                    reduced = [*_REDUCED]
                call.args[at] = self._and_missing_masks(call.args[at], spaces, reduced)
        elif function == "tl.device_assert":
            missing = self._missing(call.args[0], self._of(call.args[0]))
            # Outside of the mask, an index is whatever was not loaded.
            if missing:
                outside = " | ".join(f"~{each}mask" for each in missing)
                call.args[0] = ast.parse(f"({ast.unparse(call.args[0])}) | {outside}", mode="eval").body

    def _missing(self, mask: ast.expr, spaces: set[str], more: Iterable[str] = ()) -> list[str]:
        present = {node.id for node in ast.walk(mask) if isinstance(node, ast.Name)}
        return [each for each in (*_SPACES, *more) if each in spaces & self._known and f"{each}mask" not in present]

    def _and_missing_masks(self, mask: ast.expr, spaces: set[str], more: Iterable[str] = ()) -> ast.expr:
        """Return `mask & xmask & ymask`, with the mask of each space that the pointer uses and `mask` does not name."""
        names = [f"{each}mask" for each in self._missing(mask, spaces, more)]
        if not names:
            return mask
        missing = " & ".join(names)
        match mask:
            case ast.Constant(value=None):
                text = missing
            case ast.Name(id=name):
                text = f"{name} & {missing}"
            case _:
                text = f"({ast.unparse(mask)}) & {missing}"
        return ast.copy_location(ast.parse(text, mode="eval").body, mask)


def readable(body: list[ast.stmt]) -> list[ast.stmt]:
    """Rename temporaries, write constants where they are used, and drop what nothing uses."""
    body = _without_unused(_with_constants(body))
    names = _names(body)
    for each in body:
        for node in ast.walk(each):
            if isinstance(node, ast.Name) and node.id in names:
                node.id = names[node.id]
    return body


def _assigned(body: list[ast.stmt]) -> list[ast.Assign]:
    return [node for each in body for node in ast.walk(each) if isinstance(node, ast.Assign)]


def _with_constants(body: list[ast.stmt]) -> list[ast.stmt]:
    """Write `x * 0.5` for `tmp1 = tl.full([1], 0.5, tl.float32)` and `x * tmp1`."""
    counts = Counter(target.id for each in _assigned(body) for target in each.targets if isinstance(target, ast.Name))
    constants = {
        each.targets[0].id: each.value
        for each in _assigned(body)
        if isinstance(each.targets[0], ast.Name)
        and _TEMPORARY.match(each.targets[0].id)
        # One that is assigned again is where a loop adds up.
        and counts[each.targets[0].id] == 1
        and _is_float(each.value)
    }
    return [_Constants(constants).visit(each) for each in body]


def _is_float(value: ast.expr) -> bool:
    """Whether an expression is a float32 constant, finite or not."""
    return (
        isinstance(value, ast.Call)
        and ast.unparse(value.func) == "tl.full"
        and len(value.args) == 3
        and ast.unparse(value.args[2]) == "tl.float32"
        and isinstance(value.args[1], ast.Constant | ast.UnaryOp)
    )


class _Constants(ast.NodeTransformer):
    """Replaces operands of arithmetic, whose type the other operand decides, and other uses by the constant."""

    def __init__(self, constants: dict[str, ast.expr]) -> None:
        self._constants = constants

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, _PLAIN):
            is_left, is_right = self._is(node.left), self._is(node.right)
            # Between two constants, nothing else would make the result float32.
            if is_left != is_right:
                if is_left:
                    node.left = self._number(node.left)
                else:
                    node.right = self._number(node.right)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load):
            return self._constants.get(node.id, node)
        return node

    def _is(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._constants

    def _number(self, node: ast.expr) -> ast.expr:
        assert isinstance(node, ast.Name)
        call = self._constants[node.id]
        assert isinstance(call, ast.Call)
        return call.args[1]


def _without_unused(body: list[ast.stmt]) -> list[ast.stmt]:
    while True:
        used = {
            node.id
            for each in body
            for node in ast.walk(each)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        kept = _kept(body, used)
        if kept == body:
            return body
        body = kept


def _targets(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Assign(targets=targets):
            return targets
        case ast.AnnAssign(target=target):
            return [target]
    return []


def _kept(body: list[ast.stmt], used: set[str]) -> list[ast.stmt]:
    kept = []
    for each in body:
        if isinstance(each, ast.For):
            # Python has no loop without a statement.
            each.body = _kept(each.body, used) or [ast.Pass()]
        names = [node.id for target in _targets(each) for node in ast.walk(target) if isinstance(node, ast.Name)]
        if not names or any(name in used for name in names):
            kept.append(each)
    return kept


def _names(body: list[ast.stmt]) -> dict[str, str]:
    """Choose a name for each temporary: of the tensor that it is loaded from or stored to, else of its operation."""
    stored = _stored(body)
    taken = Counter(node.id for each in body for node in ast.walk(each) if isinstance(node, ast.Name))
    names: dict[str, str] = {}
    for each in _assigned(body):
        for target in each.targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name) and _TEMPORARY.match(node.id) and node.id not in names:
                    stem = stored.get(node.id) or _stem(each.value)
                    names[node.id] = _unique(stem, taken)
    return names


def _unique(stem: str, taken: Counter[str]) -> str:
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken[name] += 1
    return name


def _stored(body: list[ast.stmt]) -> dict[str, str]:
    found = {}
    for each in body:
        for node in ast.walk(each):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "tl.store" and len(node.args) > 1:
                stored = node.args[1]
                if isinstance(stored, ast.Name):
                    found[stored.id] = _tensor(node)
    return found


def _tensor(call: ast.Call) -> str:
    """Return the tensor behind the pointer of a load or store."""
    names = (node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name))
    return next((name.removesuffix("_ptr") for name in names if name.endswith("_ptr")), "")


def _stem(value: ast.expr) -> str:
    match value:
        case ast.Subscript(value=inner):
            return _stem(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="to")):
            return _stem(inner)
        case ast.Call(func=func):
            name = ast.unparse(func).rpartition(".")[2]
            if name == "load" and (tensor := _tensor(value)):
                return tensor
            return _CALLS.get(name, name if name.isidentifier() else "value")
        case ast.BinOp(op=op):
            return _SIGNS.get(type(op), "value")
        case ast.Compare():
            return "is_so"
        case ast.UnaryOp(op=ast.USub()):
            return "negative"
    return "value"
