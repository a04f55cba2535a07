"""Find silent dangers: compiled calls whose results differ from eager, and the unguarded state that causes this.

Each compiled call is compared with an eager call of a copy, made just before from the same state (`Dangers`). Graphs
that are not built run eagerly, bit for bit. If the results differ, a `DangerSearch` makes more eager calls to find the
cause: the smallest set of changes of the state that eager has to undo to return what compiled code returned
(`culprits`), and the user's line that reads the environment variable, attribute or global (`place_of`).

A difference is only called a danger if

- compiled code ran in the call: otherwise Python alone made the result,
- eager repeats itself from the restored state of the call, also with other copies and other addresses,
- the model itself, with the arguments of the compiled call, does as its copy does in eager, and
- either undoing a change of state makes eager return what compiled code returned, each time, or nothing that the call
  reads can be the cause: no random numbers, no clock, no address, no order of a set, no uninitialized memory.

Otherwise the call is not compared, and the reason names the line where it is known. What was found is recorded only if
nothing fails: a failure of ctrace cancels what it was about to say.
"""

import ast
import linecache
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import groupby
from types import FunctionType
from typing import Any, assert_never

from msgspec import Struct, structs
from msgspec.structs import replace

from ctrace.inspector.capture.calls.calling import CallResults
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.capture.comparing.arithmetic import AsIfCompiled, Filled, WatchedArithmetic
from ctrace.inspector.capture.comparing.compare_results import difference, disagreeing, is_compared, within_tolerances
from ctrace.inspector.capture.comparing.containers import Content
from ctrace.inspector.capture.comparing.eager import Eager, EagerError, EagerRun
from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.comparing.precision import FLOAT32
from ctrace.inspector.capture.comparing.sealed import CACHE
from ctrace.inspector.capture.comparing.snapshots import taken
from ctrace.inspector.capture.comparing.sources import RandomSource, SourceKind, Sources
from ctrace.inspector.capture.comparing.state_copies import copied
from ctrace.inspector.capture.comparing.verdicts import AGREED, Court, EagerBudget, ResultVerdict
from ctrace.inspector.capture.comparing.world import A_TENSOR, Facts, ItemChange, World, look, look_into
from ctrace.inspector.capture.core.environment import library_prefixes
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.dynamo.op_counts import OpCounter, OpCounts
from ctrace.inspector.capture.isolation.random_states import RandomStates
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.errors import TargetError, telling_line
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.run_events import DangersWithdrawn
from ctrace.inspector.facts.scenario_facts import DangerFound, Rule
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.source_names import user_name

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# e.g. `os.getenv("A")`, `os.environ.get("A")`, `environb.setdefault(...)`
_READER = re.compile(r"\bgetenvb?$|environb?\.(?:get|setdefault|__getitem__|__contains__)$")
_LAST_NAME = re.compile(r"([A-Za-z_]\w*)\W*$")

Place = tuple[str, int]


def place_of(change: ItemChange, world: World) -> Place | None:
    """Return where the changed value is read, or where an added or removed function is defined."""
    # Today's function first: its line is in the file as it is now.
    for value in (change.now, change.was):
        if isinstance(value, FunctionType):
            return value.__code__.co_filename, value.__code__.co_firstlineno
    if change.container.kind == "environment":
        reads = _environment_reads
        name = str(change.key)
    else:
        reads = _name_reads
        name = _name(change)
    return next((place for file in _files(world) for place in reads(file, name)), None)


def _name(change: ItemChange) -> str:
    """Return the last name of the path: `scale` of `model.scale`, `TABLE` of `helper.TABLE['a']`."""
    if isinstance(change.key, str) and change.key.isidentifier() and change.container.item == ".{}":
        return change.key
    found = _LAST_NAME.search(change.container.path.partition(" of ")[0].partition("[")[0])
    if found:
        return found[1]
    return str(change.key)


def _files(world: World) -> list[str]:
    """List the source files of the modules with the model's code, the user's first."""
    modules = [path for kind, path in world.containers if kind == "global"]
    files = [getattr(sys.modules.get(name), "__file__", None) for name in modules]
    known = dict.fromkeys(str(file) for file in files if file is not None)
    return sorted(known, key=lambda file: owner_of(file, library_prefixes()) is not Owner.USER)


def _inside_functions(file: str) -> Iterator[ast.AST]:
    """Yield the code that runs when the model is called: methods first, since they hold most of it, then functions."""

    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for root in (*classes, tree):
        for node in ast.walk(root):
            # `__init__` ran before the call.
            if isinstance(node, _FUNCTIONS) and getattr(node, "name", "") != "__init__":
                yield from ast.walk(node)


def _environment_reads(file: str, name: str) -> Iterator[Place]:
    """Yield reads of the named variable first, then reads of any environment variable."""
    nodes = list(_inside_functions(file))
    reads = [node for node in nodes if _reads_environment(node)]
    named = [node for node in reads if any(_is_constant(part, name) for part in ast.walk(node))]
    others = [node for node in reads if not any(isinstance(part, ast.Constant) for part in ast.walk(node))]
    # A read whose name is computed may be that of any variable.
    yield from _places(file, named or others)


def _reads_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load) and "environ" in ast.unparse(node.value)
    if isinstance(node, ast.Call):
        return bool(_READER.search(ast.unparse(node.func)))
    return isinstance(node, ast.Compare) and "environ" in ast.unparse(node.comparators[-1])


def _is_constant(node: ast.AST, value: Any) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _name_reads(file: str, name: str) -> Iterator[Place]:
    yield from _places(file, [node for node in _inside_functions(file) if _reads_name(node, name)])


def _reads_name(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == name and isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Load)
    is_getattr = isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr")
    return is_getattr and any(_is_constant(part, name) for part in ast.walk(node))


def _places(file: str, nodes: Iterable[ast.AST]) -> Iterator[Place]:
    for node in nodes:
        yield file, int(getattr(node, "lineno", 1))


# Chosen: both values of a difference stay on one line of a screen.
_LONG = 80
_VARIES = "eager is not deterministic here"
_DRAWS = "the call draws random numbers{0}, and compiled code may draw others"
_ROUNDS = 3
"""How often an experiment is repeated if the call reads something that varies, which may agree by chance."""


class Suspected(Struct, frozen=True):
    """A compiled call whose results differ from those of the eager call before it, and what is known about it."""

    call: Call
    """The arguments, copied before the compiled call."""
    own_call: Call
    """The arguments of the compiled call itself."""
    inputs: World
    """The state of these arguments before the call."""
    way: Way
    world: World
    """The state before the call."""
    random: RandomStates
    worlds: list[Facts]
    """The states before earlier calls."""
    switched: Content
    """The switches that torch itself set in this call while it compiled, with their new values."""
    compilers: Content
    """All switches that torch itself has set so far."""
    eager: EagerRun
    compiled: CallResults


class SearchOutcome(Struct, frozen=True):
    """What a search found."""

    verdict: ResultVerdict = AGREED
    dangers: tuple[DangerFound, ...] = ()
    not_compared: str = ""
    """Why the call is not compared; empty if it is."""


class DangerSearch:
    """Searches for the cause of one compiled call's difference."""

    def __init__(self, suspected: Suspected, model: Eager, budget: EagerBudget, *, built: bool) -> None:
        self._suspected = suspected
        self._model = model
        self._budget = budget
        self._built = built
        self._expected = suspected.eager
        self._compiled = taken(suspected.compiled)
        self._world = suspected.world.with_switches(suspected.switched)
        self._sources = Sources()
        self._watched = WatchedArithmetic(self._sources)
        self._varying: list[RandomSource] = []
        self._judged: ResultVerdict | None = None

    def outcome(self) -> SearchOutcome:
        """Search. The world is left as the last eager call found it."""
        # Nothing below is worth anything if the state of the call cannot come back.
        lost = self._expected.traces.lost or self._world.restore()
        if lost:
            return SearchOutcome(not_compared=_unrestorable(lost))
        with ExitStack() as kept:
            # Other copies than before, and both alive at the same time: no object has the address of another.
            kept.enter_context(self._model.keeping_copies())
            # Once with and once without the watching mode: both have to give what the first call gave.
            if not self._repeats(self._run([], self._watched)) or not self._repeats(self._run([])):
                return SearchOutcome(not_compared=f"{_VARIES}{_at(self._sources.all())}")
        if self._built:  # then most differences are rounding
            verdict = self._verdict()
            if verdict.judgement is not Judgement.WRONG:
                return _of_verdict(verdict)
        # The model itself first: if a copy behaves otherwise, no experiment with copies proves anything.
        return self._of_itself() or self._explained()

    def _of_itself(self) -> SearchOutcome | None:
        """Call the model itself in eager: a copy may behave otherwise. Return None if both do the same."""
        suspected = self._suspected
        try:
            run = self._model.run_itself(suspected.own_call, suspected.way, self._world, suspected.inputs)
        except EagerError as error:
            return SearchOutcome(
                not_compared=f"the model cannot be called again in eager ({_first_line(error.__cause__)})"
            )
        if run is None:
            return SearchOutcome(
                not_compared="the model cannot be called again: it changes its parameters or its arguments"
            )
        if not disagreeing(run.results, self._compiled):
            return SearchOutcome()
        if not self._repeats(run):
            sources = self._sources.all()
            differs = "a copy of the model gives other results than the model"
            if sources:
                differs = f"{_VARIES}{_at(sources)}"
            return SearchOutcome(not_compared=differs)
        return None

    def _explained(self) -> SearchOutcome:
        """Try to explain the difference: by a change of state, by chance, by rounding."""
        sources = self._sources.all()
        self._varying = [each for each in sources if each.kind in (SourceKind.RANDOM, SourceKind.VARYING)]
        if self._built:
            experiment = self._explains
        else:
            experiment = self._gives_the_same
        # A proven change of state is the strongest answer, so the doubts come after it.
        if found := culprits(self._world, self._suspected.worlds, experiment) or self._uncached(experiment):
            return self._of_changes(found)
        drawn = [each for each in sources if each.kind is SourceKind.RANDOM]
        if self._expected.traces.drawn or self._watched.generators or drawn:
            return SearchOutcome(not_compared=_DRAWS.format(_at(drawn)))
        verdict = self._verdict()
        if verdict.judgement is not Judgement.WRONG:
            return _of_verdict(verdict)
        if why := next(self._doubts(sources), ""):
            return SearchOutcome(not_compared=why)
        return SearchOutcome(verdict, (self._record(verdict, kind="unexplained", subject="", proven=False),))

    def _verdict(self) -> ResultVerdict:
        """Judge the compiled results by their rounding; do so once, since it takes several calls."""
        if self._judged is None:
            self._judged = self._court([], self._expected, self._watched).verdict(self._compiled)
        return self._judged

    def _of_changes(self, found: list[ItemChange]) -> SearchOutcome:
        """Return the changes that experiments proved, unless torch itself made them."""
        compilers = self._suspected.compilers
        own = [each for each in found if each.container.kind == "torch_switch" and compilers.get(each.key) == each.now]
        if len(own) == len(found):
            names = ", ".join(each.path for each in own)
            return SearchOutcome(not_compared=f"torch.compile itself changes {names}, which the model reads")
        return SearchOutcome(AGREED, tuple(map(self._cause, found)))

    def _doubts(self, sources: list[RandomSource]) -> Iterator[str]:
        """Yield reasons why the compiler may not be the cause of a difference that no change of state explains."""
        asked = [each for each in sources if each.kind is SourceKind.COMPILING]
        # Eager that believes to be compiled returns what compiled code did, or fails: then the question is the cause.
        if asked and not self._differs(AsIfCompiled()):
            yield f"the model asks whether it is being compiled{_at(asked)}"
        if not self._repeats(self._run([], Filled(filled := Sources()))):
            yield f"the result depends on uninitialized memory{_at(filled.all())}"
        if self._varying:
            yield f"the call reads what another call may read differently{_at(self._varying)}"
        if grown := self._expected.traces.remembered:
            yield f"an eager call fills {user_name(grown[0])}, which ctrace cannot restore"

    # Experiments

    def _gives_the_same(self, changes: list[ItemChange]) -> bool:
        """Whether eager returns what compiled code returned, with changes undone, and each time only then."""
        return self._proved(changes, self._same)

    def _explains(self, changes: list[ItemChange]) -> bool:
        return self._proved(changes, self._acquitted)

    def _proved(self, changes: list[ItemChange], agrees: Callable[[list[ItemChange]], bool]) -> bool:
        """Whether eager agrees with the changes undone, and without undoing them repeats itself instead.

        The order is with, with, without: what alternates between calls agrees with only one of the first two.
        """
        if not agrees(changes):
            return False
        rounds = 1
        if self._varying:
            rounds = _ROUNDS
        return all(agrees(changes) and self._repeats(self._run([])) for _ in range(rounds))

    def _same(self, changes: list[ItemChange]) -> bool:
        run = self._run(changes)
        return run is not None and not disagreeing(run.results, self._compiled)

    def _acquitted(self, changes: list[ItemChange]) -> bool:
        watched = WatchedArithmetic()
        run = self._run(changes, watched)
        if run is None:
            return False
        verdict = self._court(changes, run, watched).verdict(self._compiled, noisy_calls=1)
        return verdict.judgement is Judgement.FINE

    def _uncached(self, experiment: Callable[[list[ItemChange]], bool]) -> list[ItemChange]:
        """Return the caches of functions whose stored results differ from what the functions return now.

        Dynamo traces the function behind `functools.lru_cache` (2.11 to 2.13, _dynamo/variables/functions.py).
        """
        caches = [
            ItemChange(replace(container, kind="cache"), key, value.__wrapped__, value)
            for container, content in self._world.containers.values()
            for key, value in content.items()
            if isinstance(value, CACHE)
        ]
        # Each alone first, since only a cache that explains the difference by itself is to be named.
        return [each for each in caches if experiment([each])] or (caches if caches and experiment(caches) else [])

    def _differs(self, arithmetic: WatchedArithmetic) -> bool:
        """Whether eager with this arithmetic returns something, and not what compiled code returned."""
        run = self._run([], arithmetic)
        return run is not None and bool(disagreeing(run.results, self._compiled))

    def _repeats(self, run: EagerRun | None) -> bool:
        """Whether an eager call repeats the first, except for the order in which a GPU adds."""
        if run is None or run.traces.lost:
            return False
        apart = disagreeing(self._expected.results, run.results)
        return all(within_tolerances(leaf, FLOAT32, built=True) for leaf in apart)

    def _court(self, changes: list[ItemChange], eager: EagerRun, watched: WatchedArithmetic) -> Court:
        run = partial(self._run_or_raise, changes)
        room = self._model.has_room(self._suspected.call)
        return Court(eager, watched, run, self._budget, built=self._built, room=room)

    def _run(self, changes: list[ItemChange], arithmetic: WatchedArithmetic | None = None) -> EagerRun | None:
        try:
            return self._run_or_raise(changes, arithmetic)
        except (EagerError, TargetError):
            return None

    def _run_or_raise(self, changes: list[ItemChange], arithmetic: WatchedArithmetic | None = None) -> EagerRun | None:
        """Call the model in eager in the world of the call, with some changes undone."""
        suspected = self._suspected
        # Each run draws the numbers that the first one drew.
        suspected.random.restore()
        try:
            for change in changes:
                change.undo()
            return self._model.run(suspected.call, suspected.way, self._world, arithmetic=arithmetic)
        finally:
            self._world.restore()

    # Records

    def _cause(self, change: ItemChange) -> DangerFound:
        where = place_of(change, self._world)
        return self._record(
            AGREED,
            kind=change.container.kind,
            subject=str(change.key) if change.container.kind == "environment" else change.path,
            was=_described(change.was),
            now=_described(change.now),
            file=where and where[0],
            line=where and where[1],
            proven=True,
        )

    def _record(self, verdict: ResultVerdict, *, proven: bool, **about: Any) -> DangerFound:
        """Return what was found; who asked for the search knows the scenario and the call."""
        return DangerFound(
            scenario="",
            call=0,
            difference=verdict.difference or difference(self._expected.results, self._compiled),
            rule=Rule.EXPERIMENT if proven else verdict.rule,
            eager_error=verdict.eager_error,
            compiled_error=verdict.compiled_error,
            no_reference=verdict.no_reference,
            proven=proven,
            **about,
        )


def _of_verdict(verdict: ResultVerdict) -> SearchOutcome:
    match verdict.judgement:
        case Judgement.FINE | Judgement.WRONG:
            return SearchOutcome(verdict)
        case Judgement.UNDECIDED:
            return SearchOutcome(not_compared=verdict.why)
        case unknown:
            assert_never(unknown)


def _unrestorable(lost: tuple[str, ...]) -> str:
    if lost[0] == A_TENSOR:
        what = lost[0]
    else:
        what = user_name(lost[0])
    return f"a call changes {what}, which ctrace cannot restore"


def _at(sources: list[RandomSource]) -> str:
    if not sources:
        return ""
    # They are sorted, so the first is the surest.
    return f" ({sources[0]})"


def _first_line(error: BaseException | None) -> str:
    return telling_line(f"{type(error).__name__}: {error}")[:300]


def _described(value: Any) -> str:
    if isinstance(value, staticmethod | classmethod):
        function = getattr(value, "__func__", value)
    else:
        function = value
    if isinstance(function, FunctionType):
        return f"{function.__qualname__}, line {function.__code__.co_firstlineno}"
    try:
        return repr(value)[:_LONG]
    except Exception:  # of a class that the program defines
        return f"a {type(value).__name__}"


Experiment = Callable[[list[ItemChange]], bool]
"""Restores old values, calls the model in eager, and returns whether the result equals the compiled call's."""

# Each trial is an eager call of the model.
_MOST_TRIALS = 60


class _TrialsUsedUp(Exception):  # noqa: N818 - not an error but the end of a search
    """More trials would take too long."""


def culprits(now: World, earlier: list[Facts], experiment: Experiment) -> list[ItemChange]:
    """Return a smallest set of changes that explains the difference; return an empty one if none does.

    Try the newest of the earlier worlds first: a cache entry may have been compiled in any of them.
    """
    trials = _counted(experiment)
    tried: set[tuple[tuple[str, Any], ...]] = set()
    try:
        for facts in reversed(earlier):
            for group in _groups(now.differing(facts)):
                named = tuple((change.path, _key(change.was)) for change in group)
                # Worlds differ little from each other, so that groups recur.
                if named not in tried and trials(group):
                    return _smallest(group, trials)
                tried.add(named)
    except _TrialsUsedUp:
        pass
    return []


def _key(value: Any) -> Any:
    """Return what distinguishes an old value from others; a class of the program may be unable to be compared."""
    if type(value) in (bool, int, float, str, bytes):
        return (type(value), value)
    return id(value)


def _counted(experiment: Experiment) -> Experiment:
    left = _MOST_TRIALS

    def trial(changes: list[ItemChange]) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise _TrialsUsedUp
        return experiment(changes)

    return trial


def _groups(changes: list[ItemChange]) -> Iterator[list[ItemChange]]:
    """Return the sets of changes to try: all, then those of each kind, then each alone.

    Undoing a change that a guard protects may hide what the others explain.
    """
    if not changes:
        return
    yield changes
    # `groupby` joins neighbors only.
    by_kind = sorted(changes, key=lambda change: change.container.kind)
    for _, members in groupby(by_kind, key=lambda change: change.container.kind):
        yield list(members)
    yield from ([change] for change in changes)


def _smallest(changes: list[ItemChange], trial: Experiment) -> list[ItemChange]:
    """Drop the changes that the explanation does not need: halves first, then quarters, down to single changes."""
    size = len(changes) // 2
    try:
        while size:
            for start in range(0, len(changes), size):
                rest = changes[:start] + changes[start + size :]
                if rest and trial(rest):
                    changes = rest
                    break
            else:
                size //= 2
            size = min(size, len(changes) // 2)
    except _TrialsUsedUp:
        pass
    return changes


_NO_CODE = "no compiled code ran in this call, so that a difference is the model's own"
_NOTHING = "the result has no values to compare: the model returns an iterator, a function or another such object"
_FAILED = "ctrace failed to compare it"


class Before(Struct, frozen=True):
    """The state before a compiled call: the world, the arguments and the eager result."""

    scenario: str
    index: int
    call: Call
    own_call: Call
    """The arguments that the compiled call gets."""
    inputs: World | None
    """Their state; None: unknown, as the world's is."""
    way: Way
    world: World | None
    random: RandomStates
    eager: EagerRun | None
    runs: int
    """How often graphs had run."""
    why_no_eager: str = ""
    """Why there is no eager run; empty if there is one."""

    @property
    def counts(self) -> OpCounts | None:
        """Ops of the eager call, if they were counted."""
        if self.eager is None:
            return None
        return self.eager.counts


class Dangers:
    """Compares compiled calls with eager ones."""

    def __init__(self, model: Any, eager: Eager, recorder: Recorder, ops: OpCounter, *, built: bool) -> None:
        self._model = model
        self._eager = eager
        self._recorder = recorder
        self._ops = ops
        self._built = built
        self._worlds: list[Facts] = []
        self._compilers: Content = {}
        self._compared: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self._verdicts: dict[str, ResultVerdict] = {}
        self._failed = ""
        """Why the comparison of a call failed; empty if none did."""
        self._budget = EagerBudget()

    def before(
        self,
        scenario: str,
        index: int,
        call: Call,
        way: Way,
        counting: Callable[[], AbstractContextManager[OpCounts | None]],
    ) -> Before:
        """Take a checkpoint of the world, and call the model in eager.

        Raises:
        TargetError: no output requires a gradient.
            EagerError: the first call of the scenario raised.
        """
        # The checkpoint comes before the eager call, which may change what it reads.
        world, inputs = self._look(call)
        facts = {}
        if world is not None:
            facts = world.facts()
        # Most calls change nothing, and each world that is kept is later tried as a cause.
        if not self._worlds or self._worlds[-1] != facts:
            self._worlds.append(facts)
        try:
            run = self._eager.run(call, way, world or World(), counting)
            if run is not None:
                arguments = copied(call)
            else:
                arguments = call
        except EagerError:
            # A later call that raises is the compiled call's to report, as a program would see it.
            if not index:
                raise
            run, arguments, why = None, call, "the model raises in eager"  # the compiled call reports the failure
        else:
            why = ""
            if run is None:
                why = self._eager.why_not
        # Taken after the eager call, which restores them: the compiled call starts from the same state.
        random = RandomStates()
        return Before(
            scenario=scenario,
            index=index,
            call=arguments,
            own_call=call,
            inputs=inputs,
            way=way,
            world=world,
            random=random,
            eager=run,
            runs=self._ops.runs,
            why_no_eager=why,
        )

    def _look(self, call: Call) -> tuple[World | None, World | None]:
        with self._recorder.watching("the state that the model reads"):
            return look(self._model), look_into(args=call.args, kwargs=call.kwargs)
        return None, None

    def after(self, before: Before, compiled: CallResults) -> None:
        """Compare the compiled call with the eager one; record a danger if they differ."""
        if before.eager is None:
            self.skip(before.scenario, before.why_no_eager)
        elif before.world is None or before.inputs is None:
            self.skip(before.scenario, f"{_FAILED}: the state that the model reads is not known")
        elif before.eager.random and self._built:
            self.skip(before.scenario, "built kernels draw other random numbers than eager")
        elif unknown := self._recorder.doubt:
            self.skip(before.scenario, unknown)
        else:
            with self._recorder.watching("the comparison with eager"):
                # Torch sets switches while it compiles, such as the recursion limit (2.11 to 2.13,
                # _inductor/compile_fx.py). The eager call did not set them.
                set_by_eager = before.eager.traces.switched
                switched = {name: now for name, now in before.world.switched().items() if name not in set_by_eager}
                self._compilers |= switched
                outcome = self._outcome(before, before.eager, before.world, before.inputs, compiled, switched)
                self._conclude(before, outcome)

    def _outcome(
        self,
        before: Before,
        eager: EagerRun,
        world: World,
        inputs: World,
        compiled: CallResults,
        switched: Content,
    ) -> SearchOutcome:
        """Compare, and search for the cause of a difference; a failure of ctrace is a problem, and no finding."""
        try:
            if not disagreeing(eager.results, compiled):
                if is_compared(compiled):
                    return SearchOutcome()
                return SearchOutcome(not_compared=_NOTHING)
            # Dynamo skipped everything: two calls of Python differ by themselves.
            if self._ops.runs == before.runs and not self._ops.has_code_without_graph:
                return SearchOutcome(not_compared=_NO_CODE)
            return self._searched(
                Suspected(
                    call=before.call,
                    own_call=before.own_call,
                    inputs=inputs,
                    way=before.way,
                    world=world,
                    random=before.random,
                    worlds=self._worlds[:-1],
                    switched=switched,
                    compilers=self._compilers,
                    eager=eager,
                    compiled=compiled,
                )
            )
        except Exception as error:
            why = telling_line(kind_and_message(error))
            self._recorder.problem(f"{_FAILED} with eager, so that only proven differences are shown: {why}")
            self._recorder.add(DangersWithdrawn())
            self._failed = f"{_FAILED} ({why})"
            return SearchOutcome(not_compared=self._failed)

    def _searched(self, suspected: Suspected) -> SearchOutcome:
        """Search for the cause of a difference, then restore the world to its state after the compiled call."""
        # The search restores the state of the call again and again; the program goes on from the state after it.
        after = look(self._model)
        inputs = look_into(args=suspected.own_call.args, kwargs=suspected.own_call.kwargs)
        with unnoticed():
            try:
                return DangerSearch(suspected, self._eager, self._budget, built=self._built).outcome()
            finally:
                after.restore()
                inputs.restore()

    def _conclude(self, before: Before, outcome: SearchOutcome) -> None:
        """Record what a comparison found; what failed in one call cannot rule out other causes in another."""
        is_proven = any(each.proven for each in outcome.dangers)
        withdrawn = ""
        if outcome.dangers and not is_proven:
            withdrawn = self._failed
        if why := outcome.not_compared or withdrawn:
            self.skip(before.scenario, why)
            return
        self._compared[before.scenario] += 1
        if not is_proven:
            self._agreed(before.scenario, outcome.verdict)
        for danger in outcome.dangers:
            self._recorder.add(structs.replace(danger, scenario=before.scenario, call=before.index))

    def skip(self, scenario: str, why: str) -> None:
        """Note why a call of a scenario is not compared; the first reason counts."""
        self._reasons.setdefault(scenario, why)

    def _agreed(self, scenario: str, verdict: ResultVerdict) -> None:
        """Keep, for each scenario, the verdict on the call that was hardest to decide."""
        known = self._verdicts.get(scenario, AGREED)
        self._verdicts[scenario] = max(known, verdict, key=_weight)

    def compared(self, scenario: str) -> int:
        """Return how many calls of a scenario were compared."""
        return self._compared[scenario]

    def not_compared(self, scenario: str) -> str:
        """Return why the other calls were not compared; empty: all were."""
        return self._reasons.get(scenario, "")

    def verdict(self, scenario: str) -> ResultVerdict | None:
        """Return the verdict on the call that was hardest to decide; None: no call was compared."""
        return self._verdicts.get(scenario)


def _weight(verdict: ResultVerdict) -> tuple[bool, int, float]:
    rules = list(Rule)
    return verdict.judgement is Judgement.WRONG, rules.index(verdict.rule), verdict.compiled_error or 0.0
