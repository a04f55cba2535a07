"""Decide for each dimension in each compilation whether it is static or dynamic, and why.

Conditions on data-dependent sizes that torch needs at compile time and cannot decide are found here, too.
"""

import re

from msgspec.structs import replace

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.shape_facts import (
    ConditionKind,
    Dim,
    Dimension,
    DimKind,
    DimPolicy,
    NumberSeen,
    Shaped,
    ShapedTensor,
    ShapesSeen,
    SizeCondition,
    Symbol,
    TensorSeen,
    Unbacked,
    UnbackedMade,
)
from ctrace.inspector.findings.functions import place_of
from ctrace.inspector.findings.shape_symbols import FixedSize, Symbols
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.constructs import construct_at
from ctrace.inspector.source.owners import user_frame_or_last
from ctrace.inspector.source.source_names import user_name
from ctrace.inspector.source.stacks import frames_in
from ctrace.inspector.source.text import python_lines, text_around

_SIZE = re.compile(r"(?P<tensor>.+)\.size\(\)\[(?P<at>\d+)\]$")
_CONTENT = ".item()"
"""The source of a one-element integer tensor's value, to which torch gives a symbol as if it were a size."""
_NO_BOUND = 2**63 - 2
"""An upper bound of sys.maxsize - 1 or more means that there is none."""


def shapes_of(raw: CollectedLog) -> tuple[Shaped, ...]:
    """Describe the sizes of every compilation that recorded them, in the order of compilation."""
    return tuple(_shaped(raw, each) for each in raw.seen if each in raw.shapes or each in raw.symbols)


def _shaped(raw: CollectedLog, compile_id: str) -> Shaped:
    place, symbols = place_of(raw, compile_id), Symbols(raw, compile_id)
    seen, measured = raw.shapes.get(compile_id), raw.metrics.get(compile_id)
    fail_type = None
    if measured:
        fail_type = measured.fail_type
    if seen:
        tensors = _tensors(seen, symbols)
    else:
        tensors = _known_to_torch(symbols)
    return Shaped(
        compilation=compile_id,
        function=place.function,
        file=place.file,
        line=place.begins,
        tensors=tensors,
        unbacked=_unbacked(raw, compile_id, seen, symbols),
        resumes=place.resumes_at is not None,
        complete=seen is not None,
        fail_type=fail_type,
        needed=data_conditions(raw, compile_id),
    )


def _tensors(seen: ShapesSeen, symbols: Symbols) -> tuple[ShapedTensor, ...]:
    known = {symbol.name: symbol for symbol in seen.symbols}
    tensors = {tensor.source: _tensor(tensor, seen, known, symbols) for tensor in seen.tensors}
    numbers = {
        number.source: _number(number, seen, known, symbols)
        for number in seen.numbers
        # The value of a tensor is no input that a user could mark or pass otherwise.
        if not number.source.endswith(_CONTENT)
    }
    return (*tensors.values(), *numbers.values())


def _tensor(tensor: TensorSeen, seen: ShapesSeen, known: dict[str, Symbol], symbols: Symbols) -> ShapedTensor:
    sources = [f"{tensor.source}.size()[{at}]" for at in range(len(tensor.dims))]
    dims = tuple(
        _dimension(dim, at, source, _policy(dim, source, tensor.always_static, seen), known, symbols)
        for at, (dim, source) in enumerate(zip(tensor.dims, sources, strict=True))
    )
    return ShapedTensor(tensor.source, user_name(tensor.source), tensor.dtype, tensor.role, dims)


def _number(number: NumberSeen, seen: ShapesSeen, known: dict[str, Symbol], symbols: Symbols) -> ShapedTensor:
    # Without this setting torch makes numbers dynamic at once, with it after they have changed.
    if seen.assume_static:
        policy = DimPolicy.AUTOMATIC
    else:
        policy = DimPolicy.ALL_DYNAMIC
    if "listed" in number.dim.marks:
        policy = DimPolicy.LISTED
    dim = _dimension(number.dim, None, number.source, policy, known, symbols, number.value or "")
    return ShapedTensor(number.source, user_name(number.source), number.type, "number", (dim,))


def _dimension(
    dim: Dim,
    at: int | None,
    source: str,
    policy: DimPolicy,
    known: dict[str, Symbol],
    symbols: Symbols,
    value: str = "",
) -> Dimension:
    symbol = known.get(dim.expression)
    kind = _kind(dim, source, symbol)
    if dim.size is None:
        size = value
    else:
        size = str(dim.size)
    found = Dimension(at, size, kind, policy, stride=dim.stride, ranged=dim.constraint == "range")
    if symbol is not None:
        found = replace(found, low=symbol.low, high=_bound(symbol.high))
    if kind is DimKind.SPECIALIZED:
        found = replace(found, fixed=_condition(symbols.fixed(source)))
    if kind in _FREE:
        found = replace(found, conditions=_conditions(symbols, source))
    if kind is DimKind.DUCK:
        if symbol is not None:
            others = symbol.sources
        else:
            others = ()
        return replace(found, same_as=tuple(user_name(each) for each in others if each != source))
    became = symbols.words(dim.expression)
    if became in (user_name(source), dim.expression):
        return found
    return replace(found, became=became)


_FREE = (DimKind.SYMBOLIC, DimKind.DUCK, DimKind.UNBACKED)


def _kind(dim: Dim, source: str, symbol: Symbol | None) -> DimKind:
    if _is_number(dim.expression):
        if dim.symbol is not None:
            return DimKind.SPECIALIZED
        # A size that is static anyway is not static because it is 1.
        is_apart = dim.expression in ("0", "1") and dim.policy not in ("static", "")
        if is_apart:
            return DimKind.ZERO_ONE
        return DimKind.STATIC
    if dim.policy == "unbacked" or (symbol and symbol.unbacked):
        return DimKind.UNBACKED
    is_duck = dim.policy == "duck" and dim.symbol == dim.expression and symbol and len(symbol.sources) > 1
    if is_duck and symbol and source in symbol.sources:
        return DimKind.DUCK
    return DimKind.SYMBOLIC


def _is_number(expression: str) -> bool:
    return expression.removeprefix("-").replace(".", "", 1).isdecimal()


def _policy(dim: Dim, source: str, always_static: str | None, seen: ShapesSeen) -> DimPolicy:
    """Return why a dimension is static or dynamic, as torch decides it (2.13, _dynamo/variables/builder.py,
    `_automatic_dynamic`)."""
    if dim.policy == "unbacked":
        if seen.declared and "unbacked" not in dim.marks:
            return DimPolicy.DECLARED
        return DimPolicy.MARKED_UNBACKED
    if dim.policy == "duck":
        return DimPolicy.ALL_DYNAMIC
    if dim.policy == "dynamic":
        return _dynamic_policy(dim)
    if dim.policy == "static":
        return _static_policy(dim, source, always_static, seen)
    return DimPolicy.UNKNOWN


def _static_policy(dim: Dim, source: str, always_static: str | None, seen: ShapesSeen) -> DimPolicy:
    # TORCH_COMPILE_DYNAMIC_SOURCES goes before torch's rule that parameters are static.
    if always_static is not None and "listed" not in dim.marks:
        if always_static == "parameter":
            return DimPolicy.PARAMETER
        return DimPolicy.MODULE
    if "static" in dim.marks:
        return DimPolicy.MARKED_STATIC
    if seen.declared:
        return DimPolicy.DECLARED_STATIC
    if source in seen.listed_static:
        return DimPolicy.LISTED_STATIC
    if seen.automatic:
        return DimPolicy.NOT_VARIED
    return DimPolicy.ALL_STATIC


def _dynamic_policy(dim: Dim) -> DimPolicy:
    if "dynamic" in dim.marks:
        return DimPolicy.MARKED_DYNAMIC
    if "listed" in dim.marks:
        return DimPolicy.LISTED
    if dim.constraint == "automatic":
        return DimPolicy.AUTOMATIC
    if "maybe_dynamic" in dim.marks:
        return DimPolicy.MAYBE_DYNAMIC
    return DimPolicy.UNKNOWN


def _bound(high: int | None) -> int | None:
    if high is None or high >= _NO_BOUND:
        return None
    return high


def _conditions(symbols: Symbols, source: str) -> tuple[SizeCondition, ...]:
    return tuple(filter(None, map(_condition, symbols.conditions(source))))


def _condition(fixed: FixedSize | None) -> SizeCondition | None:
    if fixed is None:
        return None
    condition = SizeCondition(text=fixed.condition, why=fixed.why, kind=fixed.kind, value=fixed.value)
    if fixed.frame is None:
        return condition
    return replace(condition, file=fixed.frame.file, line=fixed.frame.line, source=fixed.frame.source)


def _known_to_torch(symbols: Symbols) -> tuple[ShapedTensor, ...]:
    """List the sizes in a log that only torch wrote; it has only the sizes that were symbolic at first."""
    found: dict[str, dict[int | None, Dimension]] = {}
    for made in symbols.made():
        tensor, dim = made.source, Dimension(None, made.value, DimKind.SYMBOLIC, DimPolicy.UNKNOWN)
        if (match := _SIZE.fullmatch(made.source)) is not None:
            tensor, dim = match["tensor"], replace(dim, index=int(match["at"]))
        fixed = _condition(symbols.fixed(made.source))
        if fixed is not None:
            dim = replace(dim, kind=DimKind.SPECIALIZED, fixed=fixed)
        else:
            dim = replace(dim, conditions=_conditions(symbols, made.source))
        if not made.source.endswith(_CONTENT):
            # After a break, Dynamo traces a second time and makes all symbols again; the last attempt has the graph.
            found.setdefault(tensor, {})[dim.index] = dim
    tensors = []
    for source, dims in found.items():
        role = "number" if None in dims else "input"
        tensors.append(ShapedTensor(source, user_name(source), "", role, tuple(dims.values())))
    return tuple(tensors)


def _unbacked(raw: CollectedLog, compile_id: str, seen: ShapesSeen | None, symbols: Symbols) -> tuple[Unbacked, ...]:
    """List data-dependent sizes, without those of inputs that the user marked as unbacked."""
    ranges: dict[str, Symbol] = {}
    inputs: set[str] = set()
    if seen:
        ranges = {symbol.name: symbol for symbol in seen.symbols}
        inputs = {dim.expression for tensor in seen.tensors for dim in tensor.dims}
    made = dict.fromkeys(each.symbol for each in raw.symbols.get(compile_id, ()) if isinstance(each, UnbackedMade))
    return tuple(_data_size(name, ranges.get(name), symbols) for name in made if name not in inputs)


def _data_size(name: str, known: Symbol | None, symbols: Symbols) -> Unbacked:
    at = symbols.origin(name)
    if known is None:
        size = Unbacked(name)
    else:
        size = Unbacked(name, known.low, _bound(known.high))
    if at is None:
        return size
    return replace(size, file=at.file, line=at.line, source=at.source)


_UNKNOWN = re.compile(
    r"Could not (?:guard on|extract specialized integer from) data-dependent expression (?P<text>.+?) \("
)
"""`ShapeEnv._make_data_dependent_error` (2.13, fx/experimental/symbolic_shapes.py:7400)."""
_TRACEBACK = re.compile(r"User (?:Stack \(most recent call last\)|code traceback):\n(?P<frames>(?: .*\n?)+)")


def data_conditions(raw: CollectedLog, compile_id: str) -> tuple[SizeCondition, ...]:
    """Find the conditions in torch's messages about a failed compilation and about breaks."""
    measured = raw.metrics.get(compile_id)
    texts = []
    if measured and measured.fail_reason:
        texts = [measured.fail_reason]
    # The error of a failed compilation quotes the condition as well as the report of the break does: each once.
    texts += [reported.text for reported in raw.breaks if reported.id == compile_id]
    found = (_data_condition(raw, text) for text in texts)
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _data_condition(raw: CollectedLog, text: str) -> SizeCondition | None:
    unknown, traceback = _UNKNOWN.search(text), _TRACEBACK.search(text)
    if unknown is None:
        return None
    if traceback:
        frames = frames_in(traceback["frames"])
    else:
        frames = ()
    if not frames:
        return SizeCondition(
            unknown["text"], f"Torch needs to know whether {unknown['text']}.", ConditionKind.CONDITION
        )
    frame = user_frame_or_last(frames, raw.prefixes)
    condition = _condition_in(raw, frame)
    why = f"Torch needs to know whether {condition or unknown['text']}, which depends on data."
    return SizeCondition(condition or unknown["text"], why, ConditionKind.CONDITION, frame.file, frame.line, condition)


def _condition_in(raw: CollectedLog, frame: Frame) -> str:
    """Return the user's whole condition from the code; empty if the line has none."""
    text, line = text_around(raw.listings, frame)
    found = construct_at(text, line, frame.span, branches=True)
    if found.span is None:
        return ""
    begin, end = found.span
    condition = python_lines(text)[line - 1].strip()[begin:end]
    # "Torch needs to know whether `n`" would be no sentence: a number alone keeps torch's words.
    if any(sign in condition for sign in "<>="):
        return condition
    return ""
