"""Match the graphs of two runs by function and content (`pairs_of`), and compare each pair (`changes_of`).

`graph_changes` compares two graphs node by node, without the names and numbers that torch gives to nodes.
`kernel_changes` compares the kernels of matched graphs: source, registers and bytes, without names and hashes.
"""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.built import Built
from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.facts.kernel_facts import Kernel, Stage
from ctrace.inspector.facts.session import Compilation, Graph, Session
from ctrace.inspector.facts.wire import titled
from ctrace.inspector.features.compare.changes import Change, ChangeKind, What, edited, place, root_of
from ctrace.inspector.findings.graphs.fx import At, FxGraph, FxNode, FxNodeKind, TensorType, op_name, overload
from ctrace.inspector.findings.graphs.graph_view import CompiledGraph, compiled
from ctrace.inspector.findings.kernels.kernel_view import label_of
from ctrace.inspector.findings.site_matching import paired
from ctrace.inspector.knowledge.counting import count, named
from ctrace.inspector.source.relative_paths import relative_path
from ctrace.inspector.source.source_names import user_name
from ctrace.inspector.source.statements import qualified_name, statement

_WORD = re.compile(r"[^\W\d][\w.]*")
_SYMBOL = re.compile(r"\b[su]\d+\b")
_NUMBERED = re.compile(r"(__resume_at_|_at_|__compiled_fn_|__builtins_dict___|_tensor_constant)\d+(?:_\w+)?")
"""Names that contain a line number, a counter or a random part (2.13, _dynamo/bytecode_transformation.py)."""


class NodeChange(Struct, frozen=True):
    """Nodes of one user line that differ; a side is empty if the nodes are new or gone."""

    at: At | None
    was: tuple[str, ...] = ()
    now: tuple[str, ...] = ()


def without_numbers(text: str) -> str:
    """Replace the numbers in names that torch generates, so that a moved line or another process changes nothing."""
    return _NUMBERED.sub(r"\g<1>#", text)


def fingerprint(graph: FxGraph) -> tuple[object, ...]:
    """Return the content of a graph; equal graphs of two processes have equal fingerprints."""
    return tuple((_token(node), _type(node.type)) for node in graph.everything())


def graph_changes(before: FxGraph, after: FxGraph) -> Iterator[NodeChange]:
    """Yield the differences between two graphs, line by line: inputs first, then nodes.

    A node whose type follows from a changed operand is not a separate difference.
    """
    olds, news = _nodes(before), _nodes(after)
    known: dict[str, str] = {}
    other_type: set[str] = set()
    inputs = list(_input_changes(before, after, known, other_type))
    if inputs:
        yield NodeChange(None, tuple(was for was, _ in inputs if was), tuple(now for _, now in inputs if now))
    yield from _folded(_node_changes(olds, news, known, other_type))


def _nodes(graph: FxGraph) -> list[FxNode]:
    return [node for node in graph.everything() if node.kind is not FxNodeKind.PLACEHOLDER]


def _input_changes(
    before: FxGraph, after: FxGraph, known: dict[str, str], other_type: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield inputs of another type, and inputs of one side, as text; fill in the names that correspond."""
    # Inputs have names, by which they match; nodes match by what they compute.
    olds = {without_numbers(node.target): node for node in before.placeholders()}
    news = {without_numbers(node.target): node for node in after.placeholders()}
    for name, old in olds.items():
        new = news.get(name)
        if new is None:
            yield _input(old), ""
            continue
        known[old.name] = new.name
        if _type(old.type) != _type(new.type) or bool(old.symbol) != bool(new.symbol):
            other_type.add(new.name)
            yield _input(old), _input(new)
    for name, new in news.items():
        if name not in olds:
            yield "", _input(new)


def _input(node: FxNode) -> str:
    return f"{user_name(_source(node.target))}: {type_text(node.type) or node.symbol or '?'}"


def _source(target: str) -> str:
    """Return Dynamo's name of an input as code: `l_self_modules_fc_parameters_weight_` becomes `self.fc.weight`."""
    text = without_numbers(target)
    match = re.fullmatch(r"[Ll]_(?P<name>\w+?)_", text)
    if match is None:
        return text
    return re.sub(r"_(?:modules|parameters|buffers)_", ".", match["name"]).strip("_")


def _node_changes(
    olds: Sequence[FxNode], news: Sequence[FxNode], known: dict[str, str], other_type: set[str]
) -> Iterator[tuple[FxNode | None, FxNode | None]]:
    """Yield pairs of nodes that differ, and nodes of one side only."""
    pairs = list(_aligned(olds, news))
    known |= {old.name: new.name for old, new in pairs if old is not None and new is not None}
    values = set(known.values())
    for old, new in pairs:
        if old is None or new is None:
            yield old, new
            continue
        # Another type of an input changes the types of all that is computed from it: only the first is a difference.
        follows = any(name in other_type for name in new.uses)
        is_other_type = _type(old.type) != _type(new.type)
        if is_other_type:
            other_type.add(new.name)
        is_rewired = _is_rewired(old, new, known, values)
        is_output = new.kind is FxNodeKind.OUTPUT  # collects the nodes, which are compared themselves
        if not is_output and (_token(old) != _token(new) or is_rewired or (is_other_type and not follows)):
            yield old, new


def _is_rewired(old: FxNode, new: FxNode, known: dict[str, str], values: Collection[str]) -> bool:
    """Whether a node reads other values; a new or missing value already counts as a difference."""
    pairs = zip(old.uses, new.uses, strict=False)
    return any(one in known and other in values and known[one] != other for one, other in pairs)


def _aligned(olds: Sequence[FxNode], news: Sequence[FxNode]) -> Iterator[tuple[FxNode | None, FxNode | None]]:
    """Align nodes by what they call; replaced nodes pair by position if there are as many new ones as old ones."""
    one, other = [_token(node) for node in olds], [_token(node) for node in news]
    # The matcher takes quadratic time on repeated ops, so equal nodes at both ends are left out first.
    least = min(len(one), len(other))
    start = next((at for at in range(least) if one[at] != other[at]), least)
    end = next((at for at in range(least - start) if one[-1 - at] != other[-1 - at]), least - start)
    yield from zip(olds[:start], news[:start], strict=True)
    yield from _matched(olds[start : len(olds) - end], news[start : len(news) - end])
    yield from zip(olds[len(olds) - end :], news[len(news) - end :], strict=True)


def _matched(olds: Sequence[FxNode], news: Sequence[FxNode]) -> Iterator[tuple[FxNode | None, FxNode | None]]:
    """Align by node and source line first, which are rarely repeated, then what is left by node alone."""
    # By node alone, the matcher pairs any two `add`s, also of other layers.
    for tag, low, high, low2, high2 in _opcodes(olds, news, _line_token):
        if tag == "equal":
            yield from zip(olds[low:high], news[low2:high2], strict=True)
            continue
        for inner, low3, high3, low4, high4 in _opcodes(olds[low:high], news[low2:high2], _token):
            one, other = olds[low + low3 : low + high3], news[low2 + low4 : low2 + high4]
            if inner == "equal" or (inner == "replace" and len(one) == len(other)):
                yield from zip(one, other, strict=True)
            else:
                yield from ((node, None) for node in one)
                yield from ((None, node) for node in other)


def _opcodes(
    olds: Sequence[FxNode], news: Sequence[FxNode], token: Callable[[FxNode], Hashable]
) -> list[tuple[str, int, int, int, int]]:
    one, other = [token(node) for node in olds], [token(node) for node in news]
    # `autojunk` would ignore what is frequent in long graphs, which is each op of a repeated layer.
    return list(difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes())


def _line_token(node: FxNode) -> tuple[Hashable, ...]:
    return (*_token(node), node.at.code if node.at else "")


def _token(node: FxNode) -> tuple[str, str, str]:
    """Return a node's op and its arguments, with a placeholder for each node that it reads."""
    uses = set(node.uses)
    # Names of nodes have numbers, which one more node shifts for all that follow.
    args = _WORD.sub(lambda match: "%" if match[0] in uses else match[0], node.args)
    if node.kind is FxNodeKind.OUTPUT:
        args = ""  # the returned nodes are compared themselves; an output only collects them
    target = ""
    if node.kind is not FxNodeKind.PLACEHOLDER:
        target = node.target
    return node.kind, without_numbers(target), _SYMBOL.sub("s", without_numbers(args))


def _type(one: TensorType | None) -> tuple[object, ...] | None:
    """Return a type with one name for all symbols, since their numbers depend on names."""
    if one is None:
        return None
    sizes = tuple(_SYMBOL.sub("s", size) for size in one.sizes)
    strides = None
    if one.strides is not None:
        strides = tuple(_SYMBOL.sub("s", size) for size in one.strides)
    return one.dtype, sizes, strides, one.device, one.wrapper


def type_text(one: TensorType | None) -> str:
    """Write `f32[4, 16]`, with the device unless it is the CPU."""
    if one is None:
        return ""
    device = ""
    if one.device not in ("", "cpu"):
        device = f" {one.device}"
    return f"{one.dtype}[{', '.join(one.sizes)}]{device}"


def _folded(pairs: Iterable[tuple[FxNode | None, FxNode | None]]) -> Iterator[NodeChange]:
    """Group neighbors that come from one line and differ in the same way."""
    kept: tuple[object, ...] = ()
    was: list[str] = []
    now: list[str] = []
    at: At | None = None
    for old, new in pairs:
        node = new or old
        here = None
        if node:
            here = node.at
        key = (here and (here.file, here.line), old is None, new is None)
        if kept and kept != key:
            yield NodeChange(at, tuple(was), tuple(now))
            was, now = [], []
        kept, at = key, here
        if old:
            was += [_text(old)]
        if new:
            now += [_text(new)]
    if kept:
        yield NodeChange(at, tuple(was), tuple(now))


def _text(node: FxNode) -> str:
    """Write a node as `relu(linear) -> f32[4, 32]`."""
    name = ".".join(filter(None, (op_name(node), overload(node))))
    result = ""
    if node.type:
        result = f" -> {type_text(node.type)}"
    args = _WORD.sub(lambda match: _source(match[0]), node.args)
    if node.kind is not FxNodeKind.OUTPUT:
        return f"{name}({args}){result}"
    return f"return {args}"


_ATEN = (GraphStage.FORWARD, GraphStage.INFERENCE, GraphStage.BACKWARD, GraphStage.POST_GRAD)
_MOST = 6
"""The most nodes of one line that a change names."""


class RunGraph(Struct, frozen=True):
    """A graph of one run, and what identifies it in another run."""

    session: Session
    graph: Graph
    compilation: Compilation | None
    compiled: CompiledGraph | None
    file: str
    function: str
    resumes: str
    """For a resume function, the statement at which it resumes."""
    content: Hashable
    """What Dynamo traced; the number of ops if the graph was not printed."""

    @property
    def where(self) -> str:
        """The function's place."""
        return f"{place(self.session, self.graph.file, self.graph.line)} {self.function}"


class Pairs(Struct, frozen=True):
    """The graphs of two runs, those of the earlier run first in each pair."""

    both: tuple[tuple[RunGraph, RunGraph], ...]
    gone: tuple[RunGraph, ...]
    new: tuple[RunGraph, ...]


_ALIKE: tuple[Callable[[RunGraph], Hashable], ...] = (
    lambda each: (each.file, each.function, each.resumes, each.content),
    lambda each: (each.function, each.resumes, each.content),
    lambda each: (each.content, bool(each.resumes)),
    lambda each: (each.file, each.function, each.resumes),
    lambda each: (each.function, each.resumes),
    lambda each: (each.file, each.function, bool(each.resumes)),
)
"""What two matched graphs share, the closest match first: a moved, renamed or edited function is still the same one."""


def pairs_of(before: Session, after: Session) -> Pairs:
    """Match the graphs of two runs."""
    news, olds = list(_graphs(after)), list(_graphs(before))
    both: list[tuple[RunGraph, RunGraph]] = []
    for same in _ALIKE:
        found, news, olds = paired(news, olds, same)
        both += [(old, new) for new, old in found]
    # Matches were found by their closeness; show them in the order in which the later run compiled them.
    order = {graph.id: at for at, graph in enumerate(after.graphs)}
    both.sort(key=lambda pair: order[pair[1].graph.id])
    return Pairs(tuple(both), tuple(olds), tuple(news))


def _graphs(session: Session) -> Iterator[RunGraph]:
    root, prefixes = root_of(session), session.environment.prefixes
    known = {each.id: each for each in session.compilations}
    printed = {each.id: each for each in compiled(session)}
    for graph in session.graphs:
        stages, compilation = printed.get(graph.id), known.get(graph.id)
        traced = None
        if stages:
            traced = stages.first(GraphStage.DYNAMO)
        resumes = ""
        if compilation is not None and compilation.resumes_at:
            resumes = statement(session.listings, compilation.file, compilation.resumes_at, "") or "resumed"
        if compilation:
            line = compilation.line
        else:
            line = graph.line
        file = ""
        if graph.file:
            file = relative_path(graph.file, root, prefixes)
        yield RunGraph(
            session=session,
            graph=graph,
            compilation=compilation,
            compiled=stages,
            file=file,
            function=qualified_name(session.listings, graph.file, line, graph.function),
            resumes=resumes,
            # A log without printed graphs has the number of ops.
            content=fingerprint(traced) if traced is not None else graph.ops,
        )


def changes_of(pairs: Pairs, follow: dict[str, tuple[str, ...]]) -> Iterator[Change]:
    """Yield graphs that only one run has, and the nodes that differ between two matched graphs.

    Args:
        pairs: The graphs of both runs.
        follow: What follows from a difference, by the id of the later graph. What a change explains is taken out.
    """
    for old in pairs.gone:
        yield Change(What.GRAPH, ChangeKind.REMOVED, old.where, was=_summary(old))
    for old, new in pairs.both:
        for number, change in enumerate(_between(old, new)):
            if number == 0:  # what follows is said once, with the first difference
                change = replace(change, follows=follow.pop(new.graph.id, ()))
            yield change
    for new in pairs.new:
        yield Change(What.GRAPH, ChangeKind.ADDED, new.where, now=_summary(new))


def _summary(seen: RunGraph) -> str:
    ops = seen.graph.ops
    after = ""
    if seen.resumes:
        after = f", after {seen.resumes}"
    return f"graph of {ops} {named(ops, 'op')}{after}"


def _between(old: RunGraph, new: RunGraph) -> Iterator[Change]:
    """Yield the differences of the first stage that has any: those of later stages follow from them."""
    is_printed = False
    for one, other in _stages(old, new):
        is_printed = True
        found = list(graph_changes(one, other))
        if found:
            yield from (_change(each, old, new) for each in found)
            return
    # Without printed graphs, the number of ops is all there is.
    if not is_printed and old.graph.ops != new.graph.ops:
        yield edited(What.GRAPH, new.where, _summary(old), _summary(new))


def _stages(old: RunGraph, new: RunGraph) -> Iterator[tuple[FxGraph, FxGraph]]:
    """Yield the graphs of both runs at what Dynamo traced, then at what AOTAutograd and Inductor made of it."""
    if old.compiled is None or new.compiled is None:
        return
    for stage in (GraphStage.DYNAMO, *_ATEN):
        one, other = old.compiled.first(stage), new.compiled.first(stage)
        if one is not None and other is not None:
            yield one, other


def _change(found: NodeChange, old: RunGraph, new: RunGraph) -> Change:
    at, seen = found.at, old
    if found.now:
        seen = new
    if at:
        where = place(seen.session, at.file, at.line)
    else:
        where = seen.where
    was, now = _listed(found.was), _listed(found.now)
    if was is None:
        how = ChangeKind.ADDED
    elif now is None:
        how = ChangeKind.REMOVED
    else:
        how = ChangeKind.CHANGED
    return Change(What.GRAPH, how, where, was, now)


def _listed(nodes: tuple[str, ...]) -> str | None:
    if not nodes:
        return None
    shown, left = ", ".join(nodes[:_MOST]), len(nodes) - _MOST
    if left > 0:
        return f"{shown}, and {left} more"
    return shown


_NAME = re.compile(r"\b(?:triton|cpp)_(?:[a-z]+_)?fused_\w+")
"""The names of generated kernels, which contain ops and a number (2.13, _inductor/codegen/triton.py and cpp.py)."""
_HASH = re.compile(r"\b[0-9A-Fa-f]{32,}\b|\b[0-9A-Z]{40,}\b|\bc[a-z2-7]{50,}\b")
_PATH = re.compile(r"""(?<=["'])(?:/[^"'\s]+/)([^"'/\s]+)(?=["'])""")
_COMMENT = re.compile(r"^\s*(?:#|//)(?!\s*(?:include|pragma|if|else|endif|define|undef)).*$")
_BYTES = "bytes"
_MOST_LINES = 200
"""Longest source diff that a change keeps."""


class KernelSeen(Struct, frozen=True):
    """A kernel of one run, and the facts that are compared."""

    kernel: Kernel
    source: tuple[str, ...]
    """The source without names, hashes, paths and comments."""
    facts: dict[str, int]
    """Numbers by name: bytes, calls, registers."""

    @property
    def name(self) -> str:
        """The name of a library function; empty for a generated kernel, whose name says nothing about its content."""
        if self.source:
            return ""
        return self.kernel.name


_ALIKE_KERNELS: tuple[Callable[[KernelSeen], Hashable], ...] = (
    lambda each: (each.kernel.language, each.source, each.name, tuple(each.facts.items())),
    lambda each: (each.kernel.language, each.source, each.name),
    lambda each: (each.kernel.language, each.name, each.kernel.ops),
    # Kernels of no known line have nothing in common by that.
    lambda each: (each.kernel.language, each.name, each.kernel.lines or id(each)),
)
"""What two matched kernels share, the closest match first."""


class KernelChanges(Struct, frozen=True):
    """How the kernels of two runs differ."""

    changes: tuple[Change, ...]
    resized: dict[str, tuple["KernelPair", ...]]
    """Kernels that differ in nothing but their bytes, because sizes differ; by the id of the later graph."""


KernelPair = tuple[KernelSeen, KernelSeen]


def kernel_changes(pairs: Pairs) -> KernelChanges:
    """Compare the kernels of matched graphs."""
    moved = Moved(_elsewhere(pairs.gone), _elsewhere(pairs.new))
    changes, resized = list[Change](), dict[str, tuple[KernelPair, ...]]()
    for old, new in pairs.both:
        sizes: list[KernelPair] = []
        for stage in Stage:
            olds, news = list(_kernels(old, stage)), list(_kernels(new, stage))
            changes += _between_kernels(olds, news, f"{new.where} {stage}", moved, sizes)
        if sizes:
            resized[new.graph.id] = tuple(sizes)
    return KernelChanges(tuple(changes), resized)


def follow_up(resized: tuple[KernelPair, ...]) -> tuple[str, ...]:
    """Describe kernels of which only the bytes differ: a summary, then a line for each."""
    was, now = (_sum(pair[at] for pair in resized) for at in (0, 1))
    each = (f"{_kernel_text(old, ())}: {old.facts[_BYTES]:,} bytes, then {new.facts[_BYTES]:,}" for old, new in resized)
    return f"{_equal(resized)}: {was:,}, then {now:,}", *each


def resized_changes(pairs: Pairs, left: Container[str], found: KernelChanges) -> Iterator[Change]:
    """Yield one change for each graph in `left` whose kernels differ only in bytes: torch compiled it with other sizes
    of dynamic dimensions.
    """
    for _, new in pairs.both:
        if new.graph.id in left:
            resized = found.resized[new.graph.id]
            was, now = (f"{_equal(resized)}: {_sum(pair[at] for pair in resized):,}" for at in (0, 1))
            yield replace(edited(What.KERNEL, new.where, was, now), follows=follow_up(resized))


def _equal(resized: tuple[KernelPair, ...]) -> str:
    return f"{count(len(resized), 'kernel')}, equal but for bytes"


def _sum(kernels: Iterable[KernelSeen]) -> int:
    return sum(each.facts[_BYTES] for each in kernels)


class Moved(Struct, frozen=True):
    """The generated kernels of graphs that only one run has: a new break moves kernels, and does not remove them."""

    gone: Counter[Hashable]
    new: Counter[Hashable]


def _elsewhere(graphs: Iterable[RunGraph]) -> Counter[Hashable]:
    found: Counter[Hashable] = Counter()
    for seen in graphs:
        found.update(_content(each) for stage in Stage for each in _kernels(seen, stage))
    return found


def _content(each: KernelSeen) -> Hashable:
    return each.kernel.language, each.source


def _take(found: Counter[Hashable], each: KernelSeen) -> bool:
    """Whether a kernel is among those of other graphs, each of which counts once."""
    # Library kernels have no source, and would all be the same one.
    is_there = bool(each.source) and found[_content(each)] > 0
    found[_content(each)] -= is_there
    return is_there


def _kernels(seen: RunGraph, stage: Stage) -> Iterator[KernelSeen]:
    for kernel in seen.session.kernels:
        if (kernel.graph, kernel.stage) == (seen.graph.id, stage):
            yield KernelSeen(kernel, without_names(kernel.source), _facts(seen, kernel))


def _facts(seen: RunGraph, kernel: Kernel) -> dict[str, int]:
    found = {"calls": kernel.calls}
    read = [launch.read for launch in kernel.launches if launch.read is not None]
    written = [launch.written for launch in kernel.launches if launch.written is not None]
    # Of some launches, the bytes are not known; a part of the sum would differ for no reason.
    if len(read) == len(written) == len(kernel.launches) > 0:
        found |= {_BYTES: sum(read) + sum(written)}
    made = _built(seen, kernel)
    if made is not None:
        found |= {title: number for title, number in titled(made).items() if number is not None}
    return found


def _built(seen: RunGraph, kernel: Kernel) -> Built | None:
    """Return how a kernel was compiled, if torch launches one configuration of it."""
    made = [
        each
        for each in seen.session.built
        if (each.graph, each.stage, each.kernel) == (kernel.graph, kernel.stage, kernel.name)
    ]
    chosen = [each for each in made if each.chosen] or made
    # Of several configurations, which one is launched may differ from run to run: their numbers are not compared.
    if len(chosen) == 1:
        return chosen[0]
    return None


def without_names(source: str) -> tuple[str, ...]:
    """Return a kernel's source line by line, without generated names, hashes, folders, comments and empty lines."""
    lines = (line.rstrip() for line in source.split("\n") if not _COMMENT.match(line))
    return tuple(_PATH.sub(r"\1", _HASH.sub("#", _NAME.sub("kernel", line))) for line in lines if line)


def _between_kernels(
    olds: list[KernelSeen], news: list[KernelSeen], where: str, moved: Moved, resized: list[KernelPair]
) -> Iterator[Change]:
    """Yield the differences of two lists of kernels, and add those that differ only in bytes to `resized`."""
    both: list[KernelPair] = []
    for same in _ALIKE_KERNELS:
        found, news, olds = paired(news, olds, same)
        both += [(old, new) for new, old in found]
    # What a new graph computes now was not removed here, and what an old one computed is not new.
    olds = [each for each in olds if not _take(moved.new, each)]
    news = [each for each in news if not _take(moved.gone, each)]
    # After that, so that a changed kernel is not paired with one that only moved.
    near, olds, news = _nearest(olds, news)
    for old, new in (*both, *near):
        # The same code over other sizes: the graph's change has explained it.
        if old.source == new.source and _differing(old, new) == (_BYTES,):
            resized.append((old, new))
        else:
            yield from _compared(old, new, where)
    for old in olds:
        yield Change(What.KERNEL, ChangeKind.REMOVED, where, was=_kernel_text(old, tuple(old.facts)))
    for new in news:
        yield Change(What.KERNEL, ChangeKind.ADDED, where, now=_kernel_text(new, tuple(new.facts)))


def _nearest(
    olds: list[KernelSeen], news: list[KernelSeen]
) -> tuple[list[tuple[KernelSeen, KernelSeen]], list[KernelSeen], list[KernelSeen]]:
    """Pair generated kernels that share ops; return the pairs and the rest."""
    pairs, left = [], []
    news = list(news)
    for old in olds:
        likes = [at for at, new in enumerate(news) if _is_like(old, new)]
        shared = {at: len(_ops(old) & _ops(news[at])) for at in likes}
        best = max(shared, key=lambda at: shared[at], default=None)  # of equals, the first one
        if best is not None and shared[best]:
            pairs.append((old, news.pop(best)))
        else:
            left.append(old)
    return pairs, left, news


def _is_like(old: KernelSeen, new: KernelSeen) -> bool:
    return bool(old.source) and old.kernel.language == new.kernel.language


def _ops(seen: KernelSeen) -> set[str]:
    return set(seen.kernel.ops)


def _compared(old: KernelSeen, new: KernelSeen, where: str) -> Iterator[Change]:
    other = _differing(old, new)
    if old.source == new.source and not other:
        return
    lines = difflib.unified_diff(old.source, new.source, old.kernel.name, new.kernel.name, lineterm="", n=1)
    detail = tuple(line for line, _ in zip(lines, range(_MOST_LINES), strict=False))
    yield edited(What.KERNEL, where, _kernel_text(old, other), _kernel_text(new, other), detail)


def _differing(old: KernelSeen, new: KernelSeen) -> tuple[str, ...]:
    # Registers are there only where kernels were built: what one run lacks is no difference.
    return tuple(name for name in old.facts if name in new.facts and old.facts[name] != new.facts[name])


def _kernel_text(seen: KernelSeen, facts: tuple[str, ...]) -> str:
    """Write `cpp_fused_relu_0 (aten.relu): 1,024 bytes`."""
    ops = ""
    if seen.kernel.ops:
        ops = f" ({', '.join(seen.kernel.ops)})"
    numbers = ", ".join(f"{seen.facts[name]:,} {name}" for name in facts if name != "calls" or seen.facts[name] != 1)
    text = f"{label_of(seen.kernel)}{ops}"
    if numbers:
        text += f": {numbers}"
    return text
