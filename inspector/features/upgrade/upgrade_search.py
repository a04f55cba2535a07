"""Compare one model in two environments: what changed, for the worse, the better or neither, and why.

1. Run the model in both, compiled and in eager, and compare (`_changes`). The cost of guards counts as changed only if
   a second run of both sides says so, too.
2. Keep the changes without reasons (`BothEnvironments.keep`), so that an interrupt loses none of them.
3. Put differences of the environments back in further runs (`_searched`): variables that only the earlier torch reads,
   what explained changes of earlier models, packages, options, and the last two together.
4. What stays is torch's own: try the switches that only the later torch has, then functions of torch that the model
   calls and that have other code (`_search_torch`).
5. Run once more in a new process with nothing put back: what is gone there as well has another reason (`_control`).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.errors import CtraceError
from ctrace.inspector.features.upgrade.environment_runs import (
    EnvironmentRuns,
    ModelRun,
    eager_changes,
    error_of,
    guard_cost_changes,
    imported_packages,
    moved_bytes,
    numbers_of,
    refusal_of,
)
from ctrace.inspector.features.upgrade.reasons import (
    MOST_FILE_TRIALS,
    MOST_FUNCTION_TRIALS,
    MOST_KNOWN_TRIALS,
    MOST_OPTION_TRIALS,
    MOST_PAIR_TRIALS,
    MOST_TRIALS,
    MOST_TRIALS_OF_FILE,
    STAGE_FOLDERS,
    Difference,
    Key,
    ReasonSearch,
    called_functions,
    differences_of,
    differing_functions,
    earlier_function,
    known_without_trial,
    library_reason,
    likely_files,
    likely_functions,
    located_in_torch,
    mentioned_names,
    new_options,
    partners_of,
    reason_of,
    remaining_reason,
    still_there,
    variables_gone,
)
from ctrace.inspector.features.upgrade.upgrade_model import (
    EagerFacts,
    EnvironmentFacts,
    Reason,
    ReasonKind,
    UpgradeChange,
    UpgradedModel,
    UpgradeError,
)
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.runs.capture_request import Options, TorchSource
from ctrace.inspector.runs.options import check_options
from ctrace.inspector.runs.target import ModelTarget, Resolved

if TYPE_CHECKING:
    from ctrace.inspector.facts.session import Session

Compare = Callable[["Session", "Session"], Sequence[UpgradeChange]]
"""Returns how two runs differ, without reasons."""
_SEARCHED = Reason(note="ctrace ended before the search for it did")
_UNSTEADY = Reason(note="another run of the later environment, with nothing put back, does not have it")
_EAGER = "eager"
_GUARD_COST = "guard cost"
_VERDICTS = ("compiled", "partial", "not_compiled", "failed")
_MORE_IS_WORSE = frozenset(("break", "skip", "recompile", "accuracy"))
_BYTES = re.compile(r"([\d,]+) bytes")
_COVERAGE = re.compile(r"(\d+) of (\d+) ops")
_TIMES = re.compile(r"(\d+) times")
_NUMBER = re.compile(r"[\d.]+")


class BothEnvironments(Struct, frozen=True):
    """Two environments, and how to run models in them."""

    before: EnvironmentRuns
    after: EnvironmentRuns
    was: EnvironmentFacts
    now: EnvironmentFacts
    compare: Compare
    say: Callable[[str], None] = lambda _text: None
    keep: Callable[[UpgradedModel], None] = lambda _model: None
    """Gets a model that changed before its reasons are looked for, which takes most of the time."""
    most: int = MOST_TRIALS
    known: dict[Difference, None] = field(default_factory=dict)
    """What explains changes of earlier models, which is tried first."""


class _StoppedError(Exception):
    """A model cannot be compared."""

    def __init__(self, error: UpgradeError) -> None:
        super().__init__(error.message)
        self.error = error


def compared_model(name: str, target: Resolved, options: Options, both: BothEnvironments) -> UpgradedModel:
    """Run a model in both environments, compare the runs, and find the reasons.

    Raises:
        TargetError: the options do not fit the target.
    """
    check_options(target, options)
    try:
        return _ModelComparison(name, target, options, both).compared()
    except _StoppedError as stopped:
        return UpgradedModel(name, error=stopped.error)


class _ModelComparison:
    """One model in both environments."""

    def __init__(self, name: str, target: Resolved, options: Options, both: BothEnvironments) -> None:
        self._name = name
        self._target = target
        self._options = options
        self._both = both
        self._has_eager = isinstance(target, ModelTarget)
        self._before: ModelRun
        self._eager_before: EagerFacts | None = None
        self._moved: tuple[int, int] | None = None
        self._measured = replace(options, guard_cost=isinstance(target, ModelTarget), guard_parts=False)

    def compared(self) -> UpgradedModel:
        """Compare, and find the reasons.

        Raises:
            _StoppedError: the model does not run in one of the environments.
        """
        measured = self._measured
        both = self._both
        both.say(f"{self._name} before")
        self._before = self._ran(both.before, measured)
        self._eager_before = self._eager(both.before)
        both.say(f"{self._name} after")
        after = self._ran(both.after, measured)
        eager = self._eager(both.after)
        changes = list(self._changes(after, eager))
        numbers = numbers_of(self._before, after)
        if not changes:
            return UpgradedModel(self._name, numbers=numbers)
        loaded: dict[str, str] = {}
        for one in (eager, self._eager_before):
            if one is not None:
                loaded |= one.modules
        imported = {*imported_packages(both.was, loaded), *imported_packages(both.now, loaded)}
        if eager is None:  # a program: which packages it loads is not known
            imported = set(both.was.packages)
        settled = {each.key: reason for each in changes if (reason := known_without_trial(each, both.was, both.now))}
        was, now = moved_bytes(self._before), moved_bytes(after)
        self._moved = None if was is None or now is None else (was, now)
        first = (replace(each, reason=settled.get(each.key, _SEARCHED), worse=self._worse(each)) for each in changes)
        both.keep(UpgradedModel(self._name, tuple(first), numbers=numbers))
        search, tried = self._searched([each for each in changes if each.key not in settled], imported)
        files: frozenset[str] = frozenset()
        if eager:
            files = frozenset(eager.modules.values())
        found = tuple(self._with_reason(each, settled.get(each.key), search, tried, files) for each in changes)
        return UpgradedModel(self._name, found, numbers=numbers, trials=search.trials)

    def _ran(self, side: EnvironmentRuns, options: Options) -> ModelRun:
        try:
            run = side.captured(self._target, options)
        except CtraceError as error:
            raise _StoppedError(refusal_of(error, side.name, "target")) from None
        if (failed := error_of(run, side.name)) is not None:
            raise _StoppedError(failed)
        return run

    def _eager(self, side: EnvironmentRuns) -> EagerFacts | None:
        if not self._has_eager:
            return None
        try:
            return side.eager(self._target, self._options)
        except CtraceError as error:
            raise _StoppedError(refusal_of(error, side.name, "eager")) from None

    def _changes(self, after: ModelRun, eager: EagerFacts | None) -> Iterator[UpgradeChange]:
        if eager is not None and self._eager_before is not None:
            yield from eager_changes(self._eager_before, eager)
        yield from self._both.compare(self._before.session, after.session)
        yield from self._guard_costs(after)

    def _guard_costs(self, after: ModelRun) -> Iterator[UpgradeChange]:
        """Yield the cost of guards if it differs in a second run of both sides, too: other work may slow one run."""
        both = self._both
        if list(guard_cost_changes([self._before.session], [after.session])):
            again = [self._ran(side, self._measured).session for side in (both.before, both.after)]
            yield from guard_cost_changes([self._before.session, again[0]], [after.session, again[1]])

    def _searched(
        self, changes: Sequence[UpgradeChange], imported: set[str]
    ) -> tuple[ReasonSearch, Sequence[Difference]]:
        """Try the environment variables that are gone, then the options and packages."""
        both = self._both
        keys = {each.key for each in changes}
        with_eager = any(each.what == _EAGER for each in changes)
        with scratch("upgrade") as folder:
            # Measuring the guards makes each run longer, and only changes of their cost need it.
            costs = any(each.what == _GUARD_COST for each in changes)
            options = replace(self._options, guard_cost=costs, guard_parts=False)
            runs = _Trials(self._target, options, both, self._before, self._eager_before, folder, with_eager, keys)
            variables = variables_gone(both.was, both.now)
            search = ReasonSearch(runs.without_variables, both.most)
            search.search(keys, variables)
            tried = differences_of(both.was, both.now, imported)
            packages = [each for each in tried if each.tops]
            settings = [each for each in tried if not each.tops]
            search = search.followed_by(runs.put_back)
            # What explained another model's changes most likely explains these.
            search.more(keys - set(search.explained), [each for each in both.known if each in tried], MOST_KNOWN_TRIALS)
            # Packages first: what they explain is mostly all, and an option of torch changes nothing in eager.
            for some in (packages, settings, tried if packages and settings else []):
                eager = {each.key for each in changes if each.what == _EAGER and some is settings}
                search.search(keys - set(search.explained) - eager, some)
            if search.is_complete and not search.is_cut:
                self._search_torch(changes, search, runs)
            _control(search, runs)
        both.known.update(dict.fromkeys(each for group in search.explained.values() for each in group))
        return search, (*variables, *tried)

    def _search_torch(self, changes: Sequence[UpgradeChange], search: ReasonSearch, runs: "_Trials") -> None:
        """Look for changes that are torch's own: at options that only the later torch has, then at its functions."""
        both = self._both
        is_other = both.was.torch != both.now.torch
        # Earlier code of torch may not run with another Python.
        if not is_other or both.was.python.rpartition(".")[0] != both.now.python.rpartition(".")[0]:
            return

        def left() -> list[UpgradeChange]:
            return [each for each in changes if each.key not in search.explained and _is_in_python(each)]

        options = list(new_options(both.was, both.now))
        if keys := {each.key for each in left()}:
            search.more(keys, [each for each in both.known if each in options], MOST_KNOWN_TRIALS, alone=True)
        if keys := {each.key for each in left()}:
            search.more(
                keys, [each for each in both.known if each.function is not None], MOST_FUNCTION_TRIALS, works=True
            )
        called = runs.called() if left() else {}
        if called and (keys := {each.key for each in left()}):
            # An option that only the later torch has can matter only where called code names it.
            names = mentioned_names(Path(both.now.torch_folder), called)
            read = [each for each in options if each.name.rpartition(".")[2] in names and each not in both.known]
            search.more(keys, read, MOST_OPTION_TRIALS, alone=True)
        if found := left():
            folders = Path(both.was.torch_folder), Path(both.now.torch_folder)
            differing = list(differing_functions(*folders, called, STAGE_FOLDERS))
            functions = [earlier_function(each, both.was, both.now) for each in likely_functions(found, differing)]
            new = [each for each in functions if each not in both.known]
            # The likeliest one alone: several at once often do not run, as they lack what else the later torch changed.
            search.more({each.key for each in found}, new[:1], 1, works=True)
            search.more({each.key for each in left()}, new[1:], MOST_FUNCTION_TRIALS, works=True)
            for partner in partners_of(both.known):
                # A change may be of two functions, and one that explained another model's may be the second one.
                search.more({each.key for each in left()}, [partner, *functions[:1]], MOST_PAIR_TRIALS, works=True)
            start = search.trials
            for group in likely_files(left(), differing):
                most = min(MOST_TRIALS_OF_FILE, MOST_FILE_TRIALS - (search.trials - start))
                keys = {each.key for each in left()}
                if not keys or most <= 0:
                    break
                search.more(keys, [earlier_function(each, both.was, both.now) for each in group], most, works=True)

    def _worse(self, change: UpgradeChange) -> bool | None:
        return worse(change, self._moved)

    def _with_reason(
        self,
        change: UpgradeChange,
        settled: Reason | None,
        search: ReasonSearch,
        tried: Sequence[Difference],
        loaded: frozenset[str],
    ) -> UpgradeChange:
        both = self._both
        direction = self._worse(change)
        found = search.explained.get(change.key)
        if settled is not None:
            reason = settled
        elif change.key in search.unsteady:
            reason = _UNSTEADY
        elif found is None:
            reason = remaining_reason(both.was, both.now, tried, is_complete=search.is_complete and not search.is_cut)
            if reason.kind is ReasonKind.TORCH:
                reason = located_in_torch(reason, change, both.was, both.now)
        else:
            reason = reason_of(found)
            if len(found) == 1 and reason.kind is ReasonKind.LIBRARY:
                reason = library_reason(reason, change, both.was, both.now, loaded)
        return replace(change, reason=_advised(reason, direction), worse=direction)


def _control(search: ReasonSearch, runs: "_Trials") -> None:
    """Take back what an option or a package explains, if it is also gone in a run with nothing put back.

    Such a difference is put back in a new process, and other runs are forks: a change may depend on that alone, as the
    number of threads in a kernel of a backward pass did from 2.11 to 2.12.
    """
    doubted = {
        key for key, group in search.explained.items() if any(each.setting is not None or each.tops for each in group)
    }
    if doubted:
        left = runs.control()
        search.take_back(doubted if left is None else doubted - left)


def _is_in_python(change: UpgradeChange) -> bool:
    """Whether Python code of torch may have made a change; the state that a guard compares is compiled."""
    return change.what not in (_EAGER, _GUARD_COST) and not (change.was or "").startswith("___check_global_state()")


def _advised(reason: Reason, direction: bool | None) -> Reason:
    """Leave the advice out of a change for the better, and to stay with an old torch unless something is worse."""
    is_idle = direction is False or (reason.kind is ReasonKind.TORCH and direction is None)
    if is_idle:
        return replace(reason, advice=None)
    return reason


class _Trials:
    """Runs a model again with differences put back."""

    def __init__(
        self,
        target: Resolved,
        options: Options,
        both: BothEnvironments,
        before: ModelRun,
        eager_before: EagerFacts | None,
        folder: Path,
        with_eager: bool,
        changes: Collection[Key],
    ) -> None:
        self._target = target
        self._options = options
        self._both = both
        self._before = before
        self._eager_before = eager_before
        self._folder = folder
        self._with_eager = with_eager
        self._changes = changes
        self._number = 0
        self._after: ModelRun | None = None

    def put_back(self, among: tuple[Difference, ...]) -> set[Key] | None:
        """Return what still differs from before when some differences are put back in the environment after."""
        self._number += 1
        self._both.say(f"trying {_named(among)}")
        config = tuple(each.setting for each in among if each.setting is not None)
        first = self._overlay([top for each in among for top in each.tops])
        sources = tuple(_joined(each.function for each in among if each.function is not None))
        side = self._both.after
        try:
            run = side.captured(self._target, self._options, config=config, sources=sources, first=first)
            eager = self._eager(side, first)
        except CtraceError:
            return None
        if run.session.failure is not None:
            return None
        return self._keys(self._before, run, self._eager_before, eager)

    def control(self) -> set[Key] | None:
        """Return what still differs in a new process with nothing put back; None: it cannot be compared."""
        self._both.say("checking that only what was put back matters")
        side = self._both.after
        try:
            run = side.captured(self._target, self._options, is_new=True)
            eager = self._eager(side, ())
        except CtraceError:
            return None
        if run.session.failure is not None:
            return None
        return self._keys(self._before, run, self._eager_before, eager)

    def called(self) -> Mapping[str, list[str]]:
        """Return the functions of torch that the model calls in the environment after, by file."""
        both = self._both
        both.say("looking for the functions of torch that differ")
        record = self._folder / "called.json"
        try:
            # A comparison with eager has a profiler of its own, which takes the place of the one that records calls.
            options = replace(self._options, compare=False)
            both.after.captured(self._target, options, called=str(record))
        except CtraceError:
            return {}
        return called_functions(record)

    def without_variables(self, among: tuple[Difference, ...]) -> set[Key] | None:
        """Return what still differs when the environment before does not get some variables."""
        self._both.say(f"trying without {_named(among)}")
        names = [each.variable for each in among]
        try:
            run = self._both.before.captured(self._target, self._options, without=names)
            # Once for all trials: nothing is put back on this side.
            if self._after is None:
                self._after = self._both.after.captured(self._target, self._options)
        except CtraceError:
            return None
        if run.session.failure is not None or self._after.session.failure is not None:
            return None
        return self._keys(run, self._after, self._eager_before, self._eager(self._both.after, ()))

    def _eager(self, side: EnvironmentRuns, first: Sequence[str]) -> EagerFacts | None:
        if self._with_eager:
            return side.eager(self._target, self._options, first=first)
        return None

    def _keys(
        self, before: ModelRun, after: ModelRun, eager_before: EagerFacts | None, eager: EagerFacts | None
    ) -> set[Key]:
        changes = list(self._both.compare(before.session, after.session))
        changes += guard_cost_changes([before.session], [after.session])
        if eager is not None and eager_before is not None:
            changes += eager_changes(eager_before, eager)
        return still_there(self._changes, {each.key for each in changes})

    def _overlay(self, tops: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Return a folder of packages with links to those of the environment before."""
        if not tops:
            return ()
        # Each trial has its own, since links of another one would put back more.
        folder = self._folder / str(self._number) / "site-packages"
        folder.mkdir(parents=True)
        for name, path in tops:
            (folder / name).symlink_to(path)
        return (str(folder),)


def _joined(sources: Iterable[TorchSource]) -> Iterator[TorchSource]:
    """Yield one source for each module."""
    names: dict[tuple[str, str], list[str]] = {}
    for each in sources:
        names.setdefault((each.module, each.path), []).extend(each.functions)
    for (module, path), functions in names.items():
        yield TorchSource(module, path, tuple(functions))


def _named(among: tuple[Difference, ...]) -> str:
    if len(among) == 1:
        return among[0].name
    return f"{len(among)} differences put back"


def worse(change: UpgradeChange, moved: tuple[int, int] | None = None) -> bool | None:
    """Return whether the later environment is worse in this; None: neither is known to be.

    Args:
        change: A change.
        moved: The bytes that all kernels of the model move, before and after: what one kernel moves more, another one
            may move less, so a kernel counts only if all of them together do.
    """
    # One that only changed is neither more nor less.
    if change.what in _MORE_IS_WORSE and change.how != "changed":
        return change.how == "added"
    if change.was is None or change.now is None:
        return None
    pair = change.was, change.now
    match change.what:
        case "verdict":
            return _verdict(*pair)
        case "recompile":
            return _more(*(_numbers(_TIMES, each) for each in pair))
        case "coverage":
            return _more(*(_in_eager(each) for each in pair))
        case "kernel":
            found = _more(*(_numbers(_BYTES, each) for each in pair))
            if moved is not None and found is _more(*moved):
                return found
            return None
        case "time" | "guard cost":
            return _more(*(_numbers(_NUMBER, each) for each in pair))
        case _:
            return None


def _verdict(was: str, now: str) -> bool | None:
    if was not in _VERDICTS or now not in _VERDICTS:
        return None
    return _VERDICTS.index(now) > _VERDICTS.index(was)


def _more(was: float | None, now: float | None) -> bool | None:
    if was is None or now is None or was == now:
        return None
    return now > was


def _numbers(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.findall(text)
    # Of several numbers, nothing says which ones belong together.
    if len(found) == 1:
        return float(found[0].replace(",", ""))
    return None


def _in_eager(text: str) -> float | None:
    match = _COVERAGE.match(text)
    if match is None:
        return None
    return float(match[2]) - float(match[1])
