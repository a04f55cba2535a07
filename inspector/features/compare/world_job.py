"""Compare the ranks of a job before it runs: capture those that may differ, and read their logs as those of a job.

The first rank is captured, and says which meshes the program makes; from these follow the classes of ranks
(`findings/rank_classes.py`). One rank of each class is captured, and a random sample of the others, each beside
the rank that stands for it.

Find the branch in the user's source at which two ranks part, from lines that they reach after it.

Find where a program asks which rank it is: a rank that it compares its own with may differ from all others.
"""

import ast
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.errors import RunError, TargetError
from ctrace.inspector.facts.cluster_facts import ClusterFacts, CollectiveCalled
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.rank_summary import Apart, Summary, summary_of
from ctrace.inspector.features.compare.ranks_of_job import Divergence, Job, items_in, job_of
from ctrace.inspector.features.compare.sent_in_order import first_difference_in_order
from ctrace.inspector.findings.rank_classes import RankClasses
from ctrace.inspector.log.folders import LogFile
from ctrace.inspector.runs.virtual_world import parse_mesh

_ASKS = ("get_rank", "get_local_rank", "get_node_local_rank", "get_coordinate", "get_group_rank")
_VARIABLES = ("RANK", "LOCAL_RANK", "GROUP_RANK")
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
                yield from (number - 1, number, number + 1) if is_order else (number,)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.FloorDiv) and self._is_of_rank(node.left):
            for number in _numbers(node.right):
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
        return min(parting, key=lambda node: (node.end_lineno or node.lineno) - node.lineno).lineno
    return None


def _parts(node: _Branch, lines: set[int]) -> bool:
    """Whether a side of a branch has some of the lines, and not all."""
    for side in (node.body, node.orelse):
        nodes = side if isinstance(side, list) else [side]
        within = {line for line in lines if any(each.lineno <= line <= (each.end_lineno or line) for each in nodes)}
        if within and within != lines:
            return True
    return False


_SAMPLE = 2
"""How many ranks check what is taken for alike: each is a whole capture."""
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

    first = 0 if ranks is None else ranks[0]
    captured(first, 1 if ranks is None else len(ranks))
    _refuse_failed(runs[first])
    sources = dict.fromkeys([*(each.resolve() for each in files), *_compiled_files(runs[first].session)])
    questions = rank_questions(list(sources))
    cluster = runs[first].session.cluster or ClusterFacts(first, world)
    classes = RankClasses(world, cluster, parse_mesh(mesh) if mesh else (), questions.named)
    chosen = classes.distinct if ranks is None else tuple(ranks)
    sample = _sampled(world, chosen) if ranks is None else ()
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
        place = "" if failure.file is None else f" at {failure.file}:{failure.line}"
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
    stages: dict[tuple[int, ...], list[Summary]] = {}
    for each in summaries:
        stages.setdefault(classes.stage_of(each.rank), []).append(each)
    job = job_of(summaries, None)
    # The stages of a pipeline compile different code: only ranks of one stage have to agree.
    parts = [job] if len(stages) == 1 else [job_of(part, None) for part in stages.values()]
    divergence = next((part.divergence for part in parts if part.divergence is not None), None)
    called = _first_difference_in_calls(runs)
    divergence = called if called is not None and _is_first(called, divergence) else divergence
    like = {} if is_chosen else {rank: classes.representative(rank) for rank in range(world) if rank not in runs}
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
    followers: dict[int, list[int]] = {}
    for rank, lead in like.items():
        followers.setdefault(lead, []).append(rank)
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
            yield f"a random sample of these was captured, too: {'rank' if len(sample) == 1 else 'ranks'} {drawn}"
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
    calls = () if run.session.cluster is None else run.session.cluster.calls
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
        if not low.isdecimal() or (dash and not high.isdecimal()) or len(low) > 9 or len(high) > 9:
            raise TargetError(f"--ranks {text}: not ranks", "write numbers or ranges, as in --ranks 0,7,1020-1023")
        if int(high or low) >= world:
            raise TargetError(f"--ranks {text}: a world of {world} has ranks 0 to {world - 1}", "name some of them")
        found += range(int(low), int(high or low) + 1)
    if not found:
        raise TargetError(f"--ranks {text}: no rank", "name ranks of the world, as in --ranks 0,7")
    return tuple(dict.fromkeys(found))
