"""Compare the ranks of a job before it runs: capture those that may differ, and read their logs as those of a job.

The first rank is captured, and says which meshes the program makes; from these follow the classes of ranks
(`findings/rank_classes.py`). One rank of each class is captured, and a random sample of the others, each beside
the rank that stands for it. A rank that the program compares its own with may differ from all others, and is captured,
too. Where two ranks part, the branch in the user's source is found from lines that they reach after it.

The ranks of a process group wait for each other in each of its collectives, so they have to call the same ones in the
same order. What ran outside of graphs was recorded as it ran; what a graph communicates is read from the graph below
autograd, each time that it ran. A sequence that is not known to its end, since the record was cut, the program failed,
a graph is not in the log, or torch's `Join` goes on as long as peers have inputs, is compared as far as it is known.
"""

import ast
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import RunError, TargetError
from ctrace.inspector.facts.cluster_facts import ClusterFacts, CollectiveCalled
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.rank_summary import Apart, Summary, summary_of
from ctrace.inspector.features.compare.ranks_of_job import (
    Calls,
    Divergence,
    Job,
    calls_by_compilation,
    items_in,
    job_of,
)
from ctrace.inspector.features.compare.record_content import LoweredCall
from ctrace.inspector.findings.rank_classes import RankClasses
from ctrace.inspector.grouping import collected, grouped
from ctrace.inspector.knowledge.counting import first_and_more, named
from ctrace.inspector.log.folders import LogFile
from ctrace.inspector.runs.virtual_world import parse_mesh

_KERNEL = re.compile(r"\b_c10d_functional\.(?P<op>\w+?)(?:_out|_)?\.")
_P2P = ("send", "recv", "isend", "irecv", "recv_any_source")
_ROOTED = ("scatter", "gather")
"""The root of these holds the parts of all ranks, and each other rank holds its own."""
_UNEVEN = ("all_to_all", "all_to_all_single")
"""Ranks may send each other parts of any size."""
# Chosen: groups of a large job have hundreds of ranks, and the first ones show the pattern.
_MOST_RANKS = 8
_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool", "c64": "complex64", "c128": "complex128",
}  # fmt: skip


class Sent(Struct, frozen=True):
    """One collective of one rank."""

    op: str
    reduction: str
    """Such as `sum`; empty: none, or not known."""
    group: str
    size: str
    """Bytes outside of graphs, a shape in them."""
    dtype: str
    file: str
    line: int
    compilation: str = ""
    """Of its graph; empty: it ran outside of graphs."""

    @property
    def is_compiled(self) -> bool:
        """Whether it is part of a graph."""
        return bool(self.compilation)

    def content(self, *, with_size: bool) -> tuple[str, str, str, str]:
        """Return what has to be equal on all ranks of the group."""
        is_free = self.op in (*_ROOTED, *_UNEVEN) or not with_size
        return self.op, self.reduction, self.dtype, "" if is_free else self.size

    @property
    def text(self) -> str:
        """The collective on a screen."""
        if self.reduction:
            op = f"{self.op}({self.reduction})"
        else:
            op = self.op
        place = ""
        if self.file:
            place = f" ({Path(self.file).name}:{self.line})"
        return f"{op} of {self.size} of {self.dtype}{place}"


class _RankCalls(Struct):
    """The collectives of one rank in one group, each with its index among all collectives of the rank."""

    calls: list[tuple[int, Sent]]
    is_whole: bool

    def at(self, index: int) -> Sent | None:
        if index < len(self.calls):
            return self.calls[index][1]
        return None


def first_difference_in_order(runs: Mapping[int, tuple[LogFile, Session]]) -> Divergence | None:
    """Find the first collective in which two ranks of one process group differ; `runs` has log and session by rank."""
    by_group: dict[tuple[int, ...], dict[int, _RankCalls]] = {}
    for rank, (log, session) in runs.items():
        cluster = session.cluster
        if cluster is None:
            continue
        members = _members(cluster)
        sent, is_whole = _sent(log, session, cluster)
        for group in set(members.values()):
            # Also if it calls nothing in this group, for which its peers would wait.
            by_group.setdefault(group, {})[rank] = _RankCalls([], is_whole)
        for index, each in enumerate(sent):
            # Only two ranks of a group send to each other.
            if each.op not in _P2P and each.group in members:
                by_group[members[each.group]][rank].calls.append((index, each))
    found = [part for group, by_rank in by_group.items() if (part := _apart(group, by_rank)) is not None]
    # The one with the fewest collectives before it: that is where a job hangs.
    return min(found, default=(0, None), key=lambda each: each[0])[1]


def _sent(log: LogFile, session: Session, cluster: ClusterFacts) -> tuple[list[Sent], bool]:
    """Return the collectives of a rank in order, and whether these are all."""
    has_graphs = any(not isinstance(each, CollectiveCalled) for each in cluster.calls)
    graphs = {}
    if has_graphs:
        graphs = calls_by_compilation(log)
    found: list[Sent] = []
    for each in cluster.calls:
        if isinstance(each, CollectiveCalled):
            if each.is_joined:
                return found, False
            size = f"{each.bytes} bytes"
            found.append(Sent(each.op, each.reduction, each.group, size, each.dtype, each.file, each.line))
            continue
        calls = _of_graph(graphs.get(each.graph, {}), is_backward=each.is_backward)
        if calls is None:
            return found, False
        lines = _lines_of(session, each.graph, is_backward=each.is_backward)
        found += _with_places(calls, each.graph, lines)
    return found, cluster.cut_after is None and session.failure is None


def _of_graph(calls: Calls, *, is_backward: bool) -> list[LoweredCall] | None:
    """Return what one run of a graph communicates; None: its graph is not in the log."""
    names = ["aot_forward_graph", "aot_inference_graph"]
    if is_backward:
        names = ["aot_backward_graph"]
    records = next((calls[name] for name in names if name in calls), None)
    if records is None:
        return None
    # DDP cuts a graph into parts, and the backward runs them from the last to the first.
    if is_backward:
        ordered = records[::-1]
    else:
        ordered = records
    return [each for record in ordered for each in record if isinstance(each, LoweredCall)]


def _lines_of(session: Session, graph: str, *, is_backward: bool) -> dict[str, list[str]]:
    """Return the user's line of each collective that the code of a graph calls, in order, by the name of its op."""
    stages = [Stage.FORWARD, Stage.INFERENCE]
    if is_backward:
        stages = [Stage.BACKWARD]
    found: dict[str, list[str]] = {}
    for kernel in session.kernels:
        match = None
        if kernel.graph == graph and kernel.stage in stages:
            match = _KERNEL.search(kernel.name)
        if match is not None:
            found.setdefault(match["op"], []).extend(each.lines[0] if each.lines else "" for each in kernel.launches)
    return found


def _with_places(calls: list[LoweredCall], graph: str, lines: Mapping[str, list[str]]) -> Iterator[Sent]:
    """Yield the collectives of a graph with the user's lines.

    Torch names its own line in the graph if the program calls torch.distributed: then the kernel has the user's.
    """
    numbers = Counter(each.op for each in calls)
    reached: Counter[str] = Counter()
    for each in calls:
        file, line = each.file, each.line
        known = lines.get(each.op, [])
        if not file or _is_torchs(file):
            place = ""
            # With other numbers, it is not known which kernel is which call.
            if len(known) == numbers[each.op]:
                place = known[reached[each.op]]
            file, _, number = place.rpartition(":")
            line = 0
            if number.isdecimal():
                line = int(number)
        reached[each.op] += 1
        dtype = _DTYPES.get(each.dtype, each.dtype)
        yield Sent(each.op, each.reduction, each.group, f"[{each.shape}]", dtype, file, line, graph)


def _is_torchs(file: str) -> bool:
    return file.startswith("torch/") or "/torch/" in file


def _members(cluster: ClusterFacts) -> dict[str, tuple[int, ...]]:
    """Return the ranks of each process group that this rank is in."""
    everyone = tuple(range(cluster.world))
    # Torch calls the group of all ranks "0", and a group without ranks is one of all.
    return {"0": everyone} | {each.name: tuple(sorted(each.ranks)) or everyone for each in cluster.groups}


def _apart(group: tuple[int, ...], by_rank: Mapping[int, _RankCalls]) -> tuple[int, Divergence] | None:
    """Return where the ranks of one group part, with how many collectives came before on the rank that is shown."""
    if len(by_rank) < 2:
        return None
    for at in range(max(len(each.calls) for each in by_rank.values())):
        # Beyond its known calls, a rank may call anything.
        here = {rank: each.at(at) for rank, each in by_rank.items() if each.is_whole or at < len(each.calls)}
        if len(here) > 1 and _differ(list(here.values())):
            return _divergence(group, by_rank, here, _parted_at(by_rank, at))
    return None


def _differ(here: Sequence[Sent | None]) -> bool:
    # Bytes outside of graphs and shapes in them cannot be compared.
    with_size = len({each.is_compiled for each in here if each is not None}) < 2
    return len({None if each is None else each.content(with_size=with_size) for each in here}) > 1


def _parted_at(by_rank: Mapping[int, _RankCalls], at: int) -> int:
    """Return from where on the ranks call from different lines: a lone collective may look like the next one."""
    while at > 0:
        before = [each.at(at - 1) for each in by_rank.values()]
        if len({(each.file, each.line) for each in before if each is not None}) < 2:
            break
        at -= 1
    return at


def _divergence(
    group: tuple[int, ...], by_rank: Mapping[int, _RankCalls], apart: Mapping[int, Sent | None], at: int
) -> tuple[int, Divergence]:
    here = {rank: by_rank[rank].at(at) for rank in apart}
    there = [each for each in here.values() if each is not None]
    usual = [each.content(with_size=True) for each in there]
    lone = min(
        (rank for rank, each in here.items() if each is not None),
        key=lambda rank: sum(_place(here[rank]) == _place(each) for each in there),
    )
    shown = here[lone]
    assert shown is not None
    before = next((each for rank in apart if (each := here[rank]) is not None and each.file), shown)
    if not shown.file:
        shown = before
    values = {rank: "nothing more" if each is None else each.text for rank, each in sorted(here.items())}
    lines = {each.line for each in there if each.file == shown.file} - {shown.line}
    subject = f"collective {at + 1} of the group of ranks {first_and_more(group, _MOST_RANKS)}"
    if len(set(usual)) == 1 and len(there) == len(here):
        subject += ", which come from different lines"
    found = Divergence(
        shown.compilation, "", shown.file, shown.line, Apart.COLLECTIVE, subject, values, tuple(sorted(lines))
    )
    return by_rank[lone].calls[at][0], found


def _place(each: Sent | None) -> tuple[str, int] | None:
    if each is None:
        return None
    return (each.file, each.line)


_ASKS = ("get_rank", "get_local_rank", "get_node_local_rank", "get_coordinate", "get_group_rank")
_VARIABLES = ("RANK", "LOCAL_RANK", "GROUP_RANK")
# Chosen: each rank that a program names is a capture; one that names hundreds has computed them.
_MOST_NAMED = 32
_RANK = re.compile(r"(?:^|_)rank$")
_ARITHMETIC = ("int", "float", "str", "abs", "min", "max", "divmod")
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class RankQuestions(Struct, frozen=True):
    """Where a program asks which rank it is, and the numbers that it compares the answer with."""

    places: tuple[tuple[str, int], ...] = ()
    """File and line."""
    named: tuple[int, ...] = ()


def rank_questions(files: Sequence[Path]) -> RankQuestions:
    """Read source files for questions about the rank."""
    places: list[tuple[str, int]] = []
    named: set[int] = set()
    for path in files:
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue  # nothing of it runs, or it is no Python: then there is no question to find
        reading = _Reading(tree)
        places += [(str(path), line) for line in reading.lines]
        named |= reading.named
    return RankQuestions(tuple(places), tuple(sorted(named))[:_MOST_NAMED])


class _Reading:
    """Follows the rank through a file: assignments, and calls of the file's own functions and classes."""

    def __init__(self, tree: ast.AST) -> None:
        nodes = list(ast.walk(tree))
        self.lines = sorted({node.lineno for node in nodes if isinstance(node, ast.expr) and _asks(node)})
        self._names: set[str] = set()
        self._parameters = dict(_functions(nodes))
        # A name may be made of one that is learned only behind it.
        while self._learn(nodes):
            pass
        self.named = {number for node in nodes for number in self._compared(node)}

    def _learn(self, nodes: list[ast.AST]) -> bool:
        """Learn the names that hold something made of the rank; return whether there are new ones."""
        before = len(self._names)
        for node in nodes:
            if isinstance(node, ast.Assign) and self._is_of_rank(node.value):
                targets = [name for target in node.targets for name in ast.walk(target)]
                self._names |= {found for name in targets if (found := _name(name))}
            if isinstance(node, ast.Call):
                names = self._parameters.get(_name(node.func), ())
                passed = [*zip(names, node.args, strict=False), *((each.arg, each.value) for each in node.keywords)]
                self._names |= {name for name, value in passed if name and self._is_of_rank(value)}
        return len(self._names) > before

    def _is_of_rank(self, node: ast.AST) -> bool:
        """Whether an expression is the rank, or is computed from it; what another function returns is neither."""
        if _asks(node) or _name(node) in self._names or _RANK.search(_name(node)):
            return True
        if isinstance(node, ast.Call):
            return _name(node.func) in _ARITHMETIC and any(map(self._is_of_rank, node.args))
        is_arithmetic = isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Tuple)
        return is_arithmetic and any(map(self._is_of_rank, ast.iter_child_nodes(node)))

    def _compared(self, node: ast.AST) -> Iterator[int]:
        """Yield the ranks around which the answer of an expression may change."""
        if isinstance(node, ast.Compare) and self._is_of_rank(node):
            is_order = any(isinstance(op, _ORDERS) for op in node.ops)
            for number in _numbers(node):
                if is_order:
                    # `rank < 4` parts 3 from 4, and `rank <= 4` parts 4 from 5.
                    yield from (number - 1, number, number + 1)
                else:
                    yield number
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.FloorDiv) and self._is_of_rank(node.left):
            for number in _numbers(node.right):
                # `rank % 8` begins again at 8.
                yield from (number - 1, number)


def _functions(nodes: list[ast.AST]) -> Iterator[tuple[str, list[str]]]:
    """Yield the parameters of each function and class, by its name, without `self`."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            yield node.name, [each.arg for each in node.args.args]
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    yield node.name, [one.arg for one in each.args.args[1:]]


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return ""


def _asks(node: ast.AST) -> bool:
    """Whether an expression is a question for the rank."""
    if isinstance(node, ast.Call):
        return _name(node.func) in _ASKS or any(_is_variable(each) for each in node.args)
    return isinstance(node, ast.Subscript) and _is_variable(node.slice)


def _is_variable(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in _VARIABLES


def _numbers(node: ast.AST) -> Iterator[int]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and type(each.value) is int:
            yield each.value


_Branch = ast.If | ast.While | ast.IfExp


def parting_line(file: str, line: int, others: Sequence[int]) -> int | None:
    """Return the line of the innermost branch of which one side has some of the lines, and not all.

    None: the source is not there, or no branch parts the lines.
    """
    lines = {line, *others}
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    parting = [
        node for node in ast.walk(tree) if isinstance(node, ast.If | ast.While | ast.IfExp) and _parts(node, lines)
    ]
    if parting:
        # The shortest is the innermost one.
        return min(parting, key=lambda node: (node.end_lineno or node.lineno) - node.lineno).lineno
    return None


def _parts(node: _Branch, lines: set[int]) -> bool:
    """Whether a side of a branch has some of the lines, and not all."""
    for side in (node.body, node.orelse):
        nodes: Sequence[ast.stmt | ast.expr]
        if isinstance(side, list):
            nodes = side
        else:  # of a conditional expression
            nodes = [side]
        within = {line for line in lines if any(each.lineno <= line <= (each.end_lineno or line) for each in nodes)}
        if within and within != lines:
            return True
    return False


_SAMPLE = 2
"""How many ranks check what is taken for alike: each is a whole capture."""
# Chosen: places are words of a note, one line of it.
_MOST_PLACES = 4
_INSTALLED = "-packages/"


class RankRun(Struct, frozen=True):
    """One captured rank."""

    rank: int
    log: Path
    session: Session


def world_job(
    world: int,
    mesh: str | None,
    capture: Callable[[int], RankRun],
    files: Sequence[Path],
    *,
    ranks: Sequence[int] | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> Job:
    """Capture the ranks of a job, and compare them.

    Args:
        world: how many ranks the job has.
        mesh: their mesh, if not the program's own.
        capture: captures one rank.
        files: the target's source files.
        ranks: the ranks to capture; None: those that may differ.
        say: gets the progress.

    Raises:
        TargetError: a rank is outside of the world, or the program is wrong.
    """
    outside = [rank for rank in ranks or () if rank >= world]
    if outside:
        raise TargetError(f"--ranks {outside[0]}: a world of {world} has ranks 0 to {world - 1}", "name some of them")
    runs: dict[int, RankRun] = {}

    def captured(rank: int, of: int) -> None:
        if rank not in runs:
            say(f"rank {rank} ({len(runs) + 1} of {of})")
            runs[rank] = capture(rank)

    first = 0
    if ranks is not None:
        first = ranks[0]
    captured(first, 1 if ranks is None else len(ranks))
    _refuse_failed(runs[first])
    sources = dict.fromkeys([*(each.resolve() for each in files), *_compiled_files(runs[first].session)])
    questions = rank_questions(list(sources))
    cluster = runs[first].session.cluster or ClusterFacts(first, world)
    classes = RankClasses(world, cluster, parse_mesh(mesh) if mesh else (), questions.named)
    if ranks is None:
        chosen = classes.distinct
        sample = _sampled(world, chosen)
    else:
        chosen = tuple(ranks)
        sample = ()
    for rank in (*chosen, *sample):
        captured(rank, len(chosen) + len(sample))
    return _folded(world, runs, classes, questions, sample, is_chosen=ranks is not None)


def _refuse_failed(run: RankRun) -> None:
    """Refuse a program that fails before it compiles anything: its ranks would agree on nothing.

    Raises:
        RunError: it fails.
    """
    failure = run.session.failure
    if failure is not None and not run.session.compilations:
        place = ""
        if failure.file is not None:
            place = f" at {failure.file}:{failure.line}"
        what = f"rank {run.rank} fails{place} before anything compiles: {failure.message}"
        raise RunError(what, "let the program run as this rank first: ctrace run --world N --rank R FILE")


def _failed(runs: dict[int, RankRun]) -> dict[int, str]:
    """Return why the program of a rank ended early: what came after it is not known."""
    failures = {rank: run.session.failure for rank, run in sorted(runs.items())}
    return {rank: f"its program failed: {each.message}" for rank, each in failures.items() if each is not None}


def _sampled(world: int, chosen: Sequence[int]) -> tuple[int, ...]:
    """Draw some of the other ranks; a world always draws the same ones, so that a job can be checked twice."""
    others = [rank for rank in range(world) if rank not in set(chosen)]
    return tuple(sorted(random.Random(world).sample(others, min(_SAMPLE, len(others)))))


def _compiled_files(session: Session) -> Iterator[Path]:
    """Yield the user's files that were compiled: modules beside the target ask for the rank, too."""
    for file in dict.fromkeys(each.file for each in session.compilations):
        if _INSTALLED not in file and Path(file).is_file():
            yield Path(file).resolve()


def _folded(
    world: int,
    runs: dict[int, RankRun],
    classes: RankClasses,
    questions: RankQuestions,
    sample: Sequence[int],
    *,
    is_chosen: bool,
) -> Job:
    """Compare the captures, and let each other rank follow the one that stands for it."""
    summaries = with_equal_guards([_summary(runs[rank]) for rank in sorted(runs)], classes)
    stages = grouped(summaries, lambda each: classes.stage_of(each.rank))
    job = job_of(summaries, None)
    # The stages of a pipeline compile different code: only ranks of one stage have to agree.
    if len(stages) == 1:
        parts = [job]
    else:
        parts = [job_of(part, None) for part in stages.values()]
    divergence = next((part.divergence for part in parts if part.divergence is not None), None)
    called = _first_difference_in_calls(runs)
    if called is not None and _is_first(called, divergence):
        divergence = called
    like = {}
    if not is_chosen:
        like = {rank: classes.representative(rank) for rank in range(world) if rank not in runs}
    return replace(
        job,
        ranks=tuple(sorted({*runs, *like})),
        missing=(),
        divergence=None if divergence is None else _at_branch(divergence),
        captured=tuple(sorted(runs)),
        like=like,
        cut={**job.cut, **_failed(runs)},
        world=world,
        groups=_with_followers(job.groups, like),
        is_staged=len(stages) > 1,
        notes=(*job.notes, *_notes(runs, classes, questions, sample, world, like)),
    )


def _summary(run: RankRun) -> Summary:
    return summary_of(_log(run))


def _log(run: RankRun) -> LogFile:
    return LogFile(run.log, run.rank, run.log.stat().st_size)


def with_equal_guards(summaries: list[Summary], classes: RankClasses) -> list[Summary]:
    """Let guards that name only the rank itself, such as `self.rank == 3` on rank 3, count as equal."""
    # Keyed by all that is no guard: only ranks that agree otherwise can be equal.
    leads: dict[tuple[str, str], Summary] = {}
    digests: dict[tuple[str, str], dict[str, str]] = {}
    equal = []
    for each in summaries:
        compilations = []
        for one in each.compilations:
            others = {kind: digest for kind, digest in one.digests.items() if kind != Apart.GUARD}
            key = (one.id, repr(sorted(others.items())))
            lead = leads.setdefault(key, each)
            known = digests.setdefault(key, one.digests)
            if known != one.digests and _names_own_rank(lead, each, one.id, classes):
                compilations.append(replace(one, digests=known))
            else:
                compilations.append(one)
        equal.append(replace(each, compilations=tuple(compilations)))
    return equal


_NUMBER = re.compile(r"(\d+)")


def _names_own_rank(one: Summary, other: Summary, compile_id: str, classes: RankClasses) -> bool:
    """Whether the guards of two ranks differ only in numbers that say where each of them is."""
    pairs = [items_in(each.log, compile_id, Apart.GUARD) for each in (one, other)]
    if len(pairs[0]) != len(pairs[1]):
        return False
    own = [classes.numbers_of(each.rank) for each in (one, other)]
    for left, right in zip(*pairs, strict=True):
        parts = [_NUMBER.split(each.same) for each in (left, right)]
        if len(parts[0]) != len(parts[1]):
            return False
        for a, b in zip(*parts, strict=True):
            if a != b and not (a in own[0] and b in own[1]):
                return False
    return True


def _with_followers(groups: Iterable[tuple[int, ...]], like: dict[int, int]) -> tuple[tuple[int, ...], ...]:
    followers = collected((lead, rank) for rank, lead in like.items())
    whole = [tuple(sorted({*group, *(one for rank in group for one in followers.get(rank, ()))})) for group in groups]
    return tuple(sorted(whole, key=lambda group: (-len(group), group[0])))


def _first_difference_in_calls(runs: dict[int, RankRun]) -> Divergence | None:
    return first_difference_in_order({rank: (_log(run), run.session) for rank, run in runs.items()})


def _is_first(called: Divergence, compiled: Divergence | None) -> bool:
    """Whether a difference in calls says more than one in graphs: ranks that communicate differently can hang.

    A graph of another input has other sizes in its collectives, too; then the input says more.
    """
    if compiled is None or not called.compilation:
        return True
    return bool(called.file) and compiled.kind is not Apart.INPUT


def _at_branch(found: Divergence) -> Divergence:
    """Move a divergence to the branch of the user that the ranks take differently, if the source shows it."""
    line = parting_line(found.file, found.line, found.others)
    if line is None:
        return found
    return replace(found, line=line)


def _notes(
    runs: dict[int, RankRun],
    classes: RankClasses,
    questions: RankQuestions,
    sample: Sequence[int],
    world: int,
    like: dict[int, int],
) -> Iterator[str]:
    if like:
        drawn = ", ".join(map(str, sample))
        yield f"{len(runs)} of {world} ranks were captured; the others have the position of one of them in each mesh"
        if sample:
            yield f"a random sample of these was captured, too: {named(len(sample), 'rank')} {drawn}"
    for rank in sample:
        lead = classes.representative(rank)
        if not _agree(runs[rank], runs[lead], classes):
            yield f"rank {rank} differs from rank {lead}, which stands for it: capture more with --ranks or --all"
    joined = next((call for each in runs.values() for call in _calls(each) if call.is_joined), None)
    if joined is not None:
        place = f"{Path(joined.file).name}:{joined.line}"
        yield f"what a rank sends after its inputs end at {place} (Join) depends on its peers, and is not compared"
    places = questions.places[:_MOST_PLACES]
    if places:
        listed = ", ".join(f"{Path(file).name}:{line}" for file, line in places)
        more = " and more" if len(questions.places) > len(places) else ""
        yield f"the program asks which rank it is at {listed}{more}"


def _calls(run: RankRun) -> Iterator[CollectiveCalled]:
    if run.session.cluster is not None:
        calls = run.session.cluster.calls
    else:
        calls = ()
    return (each for each in calls if isinstance(each, CollectiveCalled))


def _agree(one: RankRun, other: RankRun, classes: RankClasses) -> bool:
    pair = with_equal_guards([_summary(one), _summary(other)], classes)
    return (
        len(job_of(pair, None).groups) == 1 and _first_difference_in_calls({one.rank: one, other.rank: other}) is None
    )


def named_ranks(text: str, world: int) -> tuple[int, ...]:
    """Parse `--ranks 0,7,1023` or `0-3`.

    Raises:
        TargetError: it has another form.
    """
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        # int() raises for more than 4,300 digits, and no world has a billion ranks.
        if not low.isdecimal() or (dash and not high.isdecimal()) or len(low) > 9 or len(high) > 9:
            raise TargetError(f"--ranks {text}: not ranks", "write numbers or ranges, as in --ranks 0,7,1020-1023")
        if int(high or low) >= world:
            raise TargetError(f"--ranks {text}: a world of {world} has ranks 0 to {world - 1}", "name some of them")
        found += range(int(low), int(high or low) + 1)
    if not found:
        raise TargetError(f"--ranks {text}: no rank", "name ranks of the world, as in --ranks 0,7")
    return tuple(dict.fromkeys(found))
