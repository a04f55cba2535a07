"""Check a call against one cache entry, and list all guards that it fails, not only the first.

Torch stops at the first failed guard (`RootGuardManager::check_verbose`, torch/csrc/dynamo/guards.cpp, 2.13). This
module walks the same tree, looks up the value of each node by its source, and calls each leaf guard alone. It does
not check anything below a failed guard, where failures only follow from it. Sentences about tensors use torch's words.

For torch's global state, `GlobalStateGuard` (the same file, 2.11 to 2.13) names what changed (`reason()`), and the
guard's text contains the old state as JSON. For a tensor, all differences from the one that a guard was made for are
found (`differences`).
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.core.exception_text import class_name, shown


def children(node: Any) -> Iterator[Any]:
    """Return the children of a node, those for a dict's keys and values first, in the order that torch prints."""

    # Only managers of dicts have it; the keys of this mapping are positions in the dict.
    if hasattr(node, "get_key_value_managers"):
        for _, pair in sorted(node.get_key_value_managers().items()):
            yield from (each for each in pair if each is not None)
    yield from node.get_child_managers()


def is_relational(guard: Any) -> bool:
    """Whether a leaf guard checks several values, and is attached to the node of each."""
    from torch._C._dynamo.guards import RelationalGuard

    return isinstance(guard, RelationalGuard)


_GONE = (AttributeError, KeyError, IndexError)
_CHECKED = re.compile(
    r"check_tensor\((?P<name>.*), (?P<type>\w+), DispatchKeySet\((?P<keys>[^)]*)\), (?P<dtype>torch\.\w+), "
    r"device=(?P<device>None|\d+), requires_grad=(?P<grad>True|False), size=\[(?P<size>[^\]]*)\], "
    r"stride=\[(?P<stride>[^\]]*)\]\)"
)
"""TENSOR_MATCH of guards.py:3560 (2.13): a size or stride of None may vary."""


class Missing:
    """Marks an expression that has no value."""


MISSING = Missing()


class Unmet(Struct, frozen=True):
    """A guard that a call fails."""

    guard: str
    """The failed condition, in torch's words."""
    now: str | None = None
    """The call's value, if it has a short form."""
    was: str | None = None
    """The value that the entry was compiled for, if the guard does not contain it."""
    verbose: str = ""
    """The complete leaf guard with torch's comment."""


class Scope(Struct):
    """The names in a guard's expression: `L`, the call's locals, `G`, its globals, and torch's helpers."""

    names: dict[str, Any]
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Lengths of dicts when the entry was compiled; a dict guard checks them without showing them."""
    unread: list[str] = field(default_factory=list)
    """Expressions that cannot be evaluated outside of torch."""
    skipped: list[str] = field(default_factory=list)
    """Sources of nodes that were skipped for that reason."""
    moved: dict[str, str] = field(default_factory=dict)
    """Sources of a dict's values whose keys differ in this call, and what torch checks in their place."""

    @classmethod
    def of(cls, manager: Any, f_locals: dict[str, Any], lengths: Mapping[str, int] | None = None) -> "Scope":
        """Make the scope with the names that torch provides to a guard manager's checks (guards.py, 2.13)."""
        known = {**manager.global_scope, **manager.closure_vars}
        return cls({**known, "L": f_locals, "G": manager.global_scope.get("G", {})}, lengths or {})

    def value(self, expression: str) -> Any:
        """Evaluate one of torch's own expressions in this process, as torch does; return MISSING if it has no value."""
        # See `_follow_positions`: torch finds the value by its place, the expression by its key.
        for source, place in self.moved.items():
            expression = expression.replace(source, place)
        try:
            return eval(_compiled(expression), self.names)
        except Exception as error:
            if not isinstance(error, _GONE):  # else the value is gone, and that is why the guard fails
                self.unread.append(expression)
            return MISSING


@lru_cache(maxsize=10_000)
def _compiled(expression: str) -> CodeType:
    return compile(expression.strip(), "<guard>", "eval")


def unmet_guards(
    manager: Any, f_locals: dict[str, Any], lengths: Mapping[str, int] | None = None
) -> tuple[list[Unmet], list[str]]:
    """Return the failed guards of an entry, each as text and value, and the sources that could not be evaluated."""
    scope = Scope.of(manager, f_locals, lengths)
    # The tree first, then the epilogue: the order in which torch checks.
    found = list(_below(manager.root, scope))
    for guard in manager.root.get_epilogue_lambda_guards():
        found += _expressions(guard, scope)
    return _with_first(list(dict.fromkeys(found)), manager.check_verbose(f_locals), scope), scope.skipped


def _with_first(found: list[Unmet], info: Any, scope: Scope) -> list[Unmet]:
    """Add the guard that torch reports first if the list lacks it: some guards cannot be called from outside."""
    parts = list(info.verbose_code_parts)
    # Nothing to add if the call passes torch's own check of the entry.
    if found or info.result or not parts:
        return found
    return [_judged(part, scope) for part in _failing(parts, scope)]


def _failing(parts: list[str], scope: Scope) -> list[str]:
    """Return the false parts of a guard with several parts; if none can be evaluated, the first."""
    if len(parts) == 1:
        return parts
    return [part for part in parts if _fails(part, scope)] or parts[:1]


def _below(node: Any, scope: Scope) -> Iterator[Unmet]:
    source = node.get_source()
    # Calling a guard on several values changes its state; see `_related`.
    leaves = [guard for guard in node.get_leaf_guards() if not is_relational(guard)]
    if source != "L":
        value = scope.value(source)
    else:
        value = scope.names["L"]
    if value is MISSING:
        if source in scope.unread:
            scope.skipped.append(source)
        else:
            yield Unmet(f"getattr failed on source {source}")
        return
    unmet = _unmet_leaves(leaves, value, scope)
    yield from unmet
    yield from _related(node, scope)
    # The locals and globals are containers of everything: a failure there, such as of the global state, decides nothing
    # below.
    if unmet and source not in ("L", "G"):
        return
    if other := _other_length(source, value, scope) or _other_key(node, scope):
        yield other  # values are looked up by position in the dict, so they would all differ because of this
        return
    _follow_positions(node, source, value, scope)
    for child in children(node):
        yield from _below(child, scope)


def _follow_positions(node: Any, source: str, value: Any, scope: Scope) -> None:
    """Let sources of a dict's values mean the positions that torch checks, where this call has other keys there.

    Torch names a value by its key, such as `x._forward_hooks[3]`, and checks the value at its position; a key without
    a guard, such as the number of a hook, may differ (`DictGuardManager`, torch/csrc/dynamo/guards.cpp, 2.11 to 2.13).
    """
    pairs = {}
    if hasattr(node, "get_key_value_managers"):
        pairs = node.get_key_value_managers()
    keys = []
    if pairs and isinstance(value, dict):
        keys = list(dict.keys(value))
    for index, (key_guards, values) in pairs.items():
        if key_guards is None and values is not None and index < len(keys):
            named = values.get_source()
            if named == f"{source}[{keys[index]!r}]":
                scope.moved.pop(named, None)
            elif named.startswith(f"{source}["):
                scope.moved[named] = f"{source}[list(dict.keys({source}))[{index}]]"


def _unmet_leaves(leaves: list[Any], value: Any, scope: Scope) -> list[Unmet]:
    """Check the leaf guards of a node; stop at a wrong type or object, because later guards do not apply to it."""
    found: list[Unmet] = []
    for guard in leaves:
        found += (unmet := list(_checked(guard, value, scope)))
        if unmet and type(guard).__name__ in _WHAT_IT_IS:
            break
    return found


_WHAT_IT_IS = frozenset(("TYPE_MATCH", "ID_MATCH", "NONE_MATCH", "TRUE_MATCH", "FALSE_MATCH"))


def _other_length(source: str, value: Any, scope: Scope) -> Unmet | None:
    """Report a dict of another length in torch's words, which state the failure (guards.cpp, 2.13)."""
    was = scope.lengths.get(source)
    if was is not None and len(value) != was:
        return Unmet(f"len({source}) != {was}", str(len(value)))
    return None


def _other_key(node: Any, scope: Scope) -> Unmet | None:
    """Return the failed guard on the first key that changed at its position in a dict, or None."""
    pairs = {}
    if hasattr(node, "get_key_value_managers"):
        pairs = node.get_key_value_managers()
    for _, (keys, _value) in sorted(pairs.items()):
        if keys is not None and (unmet := next(_below(keys, scope), None)):
            return unmet
    return None


def _checked(guard: Any, value: Any, scope: Scope) -> Iterator[Unmet]:
    """Check one leaf guard on a value."""
    if _meets(guard, value):
        return
    kind = type(guard).__name__
    parts = list(guard.verbose_code_parts())
    if kind == "TENSOR_MATCH":
        texts = differences(_code(parts[0]), value) or [_code(parts[0])]
        yield from (Unmet(text, verbose=parts[0]) for text in texts)
    elif kind == "GLOBAL_STATE":
        for reason in guard.check_verbose(value).verbose_code_parts:
            yield from map(Unmet, changes(reason, parts[0]))
    else:
        yield from (_judged(part, scope) for part in _failing(parts, scope))


def _meets(guard: Any, value: Any) -> bool:
    """Call a leaf guard; in 2.13 it raises on a value of a wrong kind, which another guard reports."""
    try:
        return bool(guard(value))
    except SystemError:
        return True


def _related(node: Any, scope: Scope) -> Iterator[Unmet]:
    """Evaluate guards on several values by their expressions: calling them would change their state."""
    for guard in node.get_leaf_guards():
        if is_relational(guard):
            yield from _expressions(guard, scope)


def _expressions(guard: Any, scope: Scope) -> list[Unmet]:
    found: list[Unmet] = []
    for part in guard.verbose_code_parts():
        # These two are text for people: torch checks them in C++, and Python knows no such function.
        if match := _NO_ALIASING.match(_code(part)):
            found += _same(_arguments(match["sources"]), scope, part)
        elif match := _OVERLAPPING.match(_code(part)):
            found += _overlap(_arguments(match["some"]), _arguments(match["none"]), scope, part)
        elif _fails(part, scope):
            found.append(_judged(part, scope))
    return found


def _fails(part: str, scope: Scope) -> bool:
    value = scope.value(_code(part))
    return value is not MISSING and not value


_OVERLAPPING = re.compile(r"check_overlapping\(overlapping=\[(?P<some>.*)\], non_overlapping=\[(?P<none>.*)\]\)$")


def _overlap(some: list[str], none: list[str], scope: Scope, part: str) -> Iterator[Unmet]:
    """Find tensors that share memory and should not, or vice versa.

    Source: `STORAGE_OVERLAPPING`, torch/csrc/dynamo/guards.cpp (2.13), which makes the same check.
    """
    from torch._C._dynamo.guards import compute_overlapping_tensors

    tensors = [scope.value(source) for source in (*some, *none)]
    # A source that has no value is reported where its node is.
    if MISSING not in tensors:
        # Torch's own function returns positions in this list.
        shared = compute_overlapping_tensors(tensors, symbolic=False)
        if set(shared) != set(range(len(some))):
            yield Unmet(_code(part), "apart" if some else "shared", verbose=part)


_NO_ALIASING = re.compile(r"check_no_aliasing\((?P<sources>.*)\)$")


def _same(sources: list[str], scope: Scope, part: str) -> Iterator[Unmet]:
    """Find tensors that are the same object and should not be."""
    first: dict[int, str] = {}
    for source in sources:
        value = scope.value(source)
        other = first.setdefault(id(value), source)
        if value is not MISSING and other != source:
            yield Unmet(f"{other} is not {source}", verbose=part)


def _arguments(text: str) -> list[str]:
    """Split `L['x'], L['y'][0]` at its commas; a source has none outside of brackets and quotes."""
    call = ast.parse(f"f({text})", mode="eval").body
    return [ast.unparse(each) for each in getattr(call, "args", ())]


def _code(part: str) -> str:
    return part.partition("  # ")[0].strip()


def _judged(part: str, scope: Scope) -> Unmet:
    """Describe a failed guard from one of torch's code parts, with the call's value."""
    code = _code(part)
    if code.startswith(_MODES):
        return Unmet(code, *_modes(scope), verbose=part)
    subject, expected = _compared(code)
    if subject is None:
        value = MISSING
    else:
        value = scope.value(subject)
    like = None
    if expected is not None:
        like = scope.value(expected)
    return Unmet(code, None if value is MISSING else shown(code, value, like=like), verbose=part)


_MODES = "___check_torch_function_mode_stack("


def _modes(scope: Scope) -> tuple[str, str | None]:
    """Return the torch function modes of the call and of the entry (`make_torch_function_mode_stack_guard`, 2.13)."""
    from torch.overrides import _get_current_function_mode_stack

    closure = getattr(scope.names[_MODES.removesuffix("(")], "__closure__", None) or ()
    before = next((cell.cell_contents for cell in closure if isinstance(cell.cell_contents, list)), None)
    now = [type(mode) for mode in _get_current_function_mode_stack()]
    return _listed(now), None if before is None else _listed(before)


def _listed(modes: list[type]) -> str:
    return ", ".join(class_name(mode).removeprefix("torch.utils._device.") for mode in modes) or "none"


def _compared(code: str) -> tuple[str | None, str | None]:
    """Return what a guard checks and what it compares with: both sides of `L['x'] == 3`, or a check's argument."""
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except SyntaxError:
        match = re.match(r"___check_\w+\((?P<source>.*), \d+\), type=", code)  # the text after "type=" is not Python
        return (match["source"] if match else None), None
    match tree:
        # `2 <= L['x'].size()[0]`: the value stands on the other side.
        case ast.Compare(left=ast.Constant(), comparators=[subject, *_]):
            return ast.unparse(subject), None
        case ast.Compare(left=subject, comparators=[other]):
            return ast.unparse(subject), ast.unparse(other)
        # `hasattr(L['x'], 'y')`: the first argument is what is checked.
        case ast.Call(args=[first, *_]) | ast.Tuple(elts=[ast.Call(args=[first, *_]), *_]):
            return ast.unparse(first), None
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ast.unparse(operand), None
    return None, None


_DTYPES = {5: "torch.float16", 6: "torch.float32", 7: "torch.float64", 15: "torch.bfloat16"}
"""c10::ScalarType of the dtypes that can be the default."""
_AUTOCAST = re.compile(r"autocast\(\w+\)_(?P<what>enabled|dtype)")


def changes(reason: str, guarded: str) -> list[str]:
    """Return one sentence per change, from torch's reason (`GLOBAL_STATE changed: a b`) and the guard's text."""
    from torch._C._dynamo.guards import GlobalStateGuard

    before = _state(guarded.partition("against ")[2])
    now = _state(str(GlobalStateGuard().__getstate__()))
    names = reason.partition("changed:")[2].split()
    before, now = {**before, **_of_autocast(names, before, now)}, {**now, **_of_autocast(names, now, before)}
    return [f"GLOBAL_STATE changed: {name}{_values(name, before, now)}" for name in names] or [reason]


def _state(text: str) -> dict[str, Any]:
    try:
        state = json.loads(text.partition("  #")[0])
    except ValueError:
        return {}
    if isinstance(state, dict):
        return state
    return {}


def _of_autocast(names: list[str], state: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the autocast settings in `state` that differ from `other`, keyed by their names in torch's reason.

    A state lists them by device, in the order of the reason.
    """
    found: dict[str, Any] = {}
    for what in ("enabled", "dtype"):
        changed = [name for name in names if (match := _AUTOCAST.fullmatch(name)) and match["what"] == what]
        mine, others = (each.get("autocast_state", {}).get(what, []) for each in (state, other))
        values = [value for value, old in zip(mine, others, strict=False) if value != old]
        # The state lists values by device without names: only if their number fits the names do they belong together.
        if len(values) == len(changed):
            found.update(zip(changed, values, strict=True))
    return found


def _values(name: str, before: dict[str, Any], now: dict[str, Any]) -> str:
    if name not in before or name not in now or before[name] == now[name]:
        return ""
    return f". expected {_shown(name, before[name])}, actual {_shown(name, now[name])}"


def _shown(name: str, value: Any) -> str:
    if name.endswith("dtype"):
        return _DTYPES.get(value, str(value))
    return str(value)


def differences(code: str, value: Any) -> list[str]:
    """Return each mismatch between a value and the guard `code`, in torch's words; return none if they are unknown."""
    import torch

    match = _CHECKED.match(code)
    if match is None:
        return []
    name = match["name"]
    found = []
    if not isinstance(value, torch.Tensor) or type(value).__name__ != match["type"]:
        found.append(f"expected type of '{name}' to be a tensor type, '{match['type']}' but found {type(value)}")
    if isinstance(value, torch.Tensor):
        found += [f"tensor '{name}' {what} mismatch{was}, actual {now}" for what, was, now in _properties(match, value)]
    return found


def _properties(match: re.Match[str], value: Any) -> Iterator[tuple[str, str, object]]:

    keys, actual = match["keys"], _keys_of(value)
    layout, now = _layout_of(keys), str(value.layout).removeprefix("torch.").removeprefix("_")
    backend = _backend_of(actual)
    # One change of keys fails several of these checks; only the first of them is the reason.
    if layout != now and now != "jagged":
        yield "layout", f". expected {layout}", now
    elif backend and backend != _backend_of(keys):
        yield "device", f". expected {_backend_of(keys).lower() or '?'}", value.device
    # An object of another class has other keys, too, and is reported by its class.
    elif _kinds(keys) != _kinds(actual) and type(value).__name__ == match["type"]:
        yield "dispatch key set", f". expected DispatchKeySet({keys})", f"DispatchKeySet({actual})"
    elif match["device"] != str(value.device.index):
        yield "device", f". expected {value.device.type}:{match['device']}", value.device
    if match["dtype"] != str(value.dtype):
        yield "dtype", f". expected {match['dtype']}", value.dtype
    if match["grad"] != str(value.requires_grad):
        yield "requires_grad", f". expected {match['grad']}", value.requires_grad
    yield from _shape(_numbers(match["size"]), _numbers(match["stride"]), value)


def _keys_of(value: Any) -> str:
    """Return a tensor's dispatch keys as guards see them: with the keys that the call's modes add and exclude.

    Source: `LocalState::apply`, torch/csrc/dynamo/guards.h (2.13).
    """
    import torch

    keys = torch._C._dispatch_keys(value) | torch._C._dispatch_tls_local_include_set()
    return str(keys - torch._C._dispatch_tls_local_exclude_set()).partition("(")[2].rstrip(")")


def _names(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",")]


def _kinds(keys: str) -> set[str]:
    """Drop autocast keys, which come from the call's mode and not from the tensor."""
    return {key for key in _names(keys) if not key.startswith("Autocast")}


_BACKEND = re.compile(r"(?:SparseCsr|Sparse|Mkldnn|NestedTensor|Quantized)?(?P<name>CPU|CUDA|Meta|MPS|XPU|HPU|XLA)$")


def _backend_of(keys: str) -> str:
    return next((match["name"] for key in _names(keys) if (match := _BACKEND.match(key))), "")


def _layout_of(keys: str) -> str:
    """Return the layout that dispatch keys imply; they distinguish two sparse layouts."""
    if any(key.startswith("SparseCsr") for key in _names(keys)):
        return "sparse_csr"
    if any(key.startswith("Sparse") for key in _names(keys)):
        return "sparse_coo"
    if any(key.startswith("Mkldnn") for key in _names(keys)):
        return "mkldnn"
    return "strided"


def _numbers(text: str) -> list[int | None]:
    return [None if each.strip() == "None" else int(each) for each in text.split(",") if each.strip()]


def _shape(sizes: list[int | None], strides: list[int | None], value: Any) -> Iterator[tuple[str, str, object]]:
    if len(sizes) != value.dim():
        yield "rank", f". expected {len(sizes)}", value.dim()
        return
    for index, (was, now) in enumerate(zip(sizes, value.shape, strict=True)):
        if was is not None and was != now:
            yield "size", f" at index {index}. expected {was}", now
    if not strides or not _has_strides(value):
        return
    if _follows(sizes, strides, list(value.shape), list(value.stride())):
        return
    for index, (was, now) in enumerate(zip(strides, value.stride(), strict=True)):
        if was is not None and was != now:
            yield "stride", f" at index {index}. expected {was}", now


def _has_strides(value: Any) -> bool:
    return str(value.layout) == "torch.strided"


def _follows(sizes: list[int | None], strides: list[int | None], new: list[int], actual: list[int]) -> bool:
    """Whether strides differ only because sizes do: both tensors are dense in the same order of dimensions.

    A size that may vary does not count: strides that depend on it vary, too.
    """
    others = any(was is not None and was != now for was, now in zip(sizes, new, strict=True))
    return others and _dense(new, actual) and _same_order(strides, actual, new)


def _dense(sizes: list[int], strides: list[int]) -> bool:
    step = 1
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _same_order(strides: list[int | None], actual: list[int], sizes: list[int]) -> bool:
    """Compare the order of dimensions by stride, ignoring dimensions of size 1 and varying strides."""
    known = [index for index, stride in enumerate(strides) if stride is not None and sizes[index] != 1]
    return sorted(known, key=lambda index: strides[index] or 0) == sorted(known, key=lambda index: actual[index])
