"""Group the findings of a Session by root cause, which is what the user can change.

Evidence that two findings have the same cause puts them into one group; each finding ends up in exactly one cause. A
cause keeps its id when its title is reworded, so that locks and saved advice still name it.

Terms
-----
- A *finding* is something that a run shows: a break, a skipped function, a recompilation, a wrong result, an attention
  without a fused kernel, the failure of the run. A `Symptom` names one by its kind and its place in the Session.
- A *pair* is evidence that two findings have one cause, such as two breaks at the same statement.
- A *group* is all findings that pairs connect, directly or through others.
- The *lead* of a group is the finding that the title of the cause describes.

Steps
-----
1. Each finding starts as a group of one.
2. Certain evidence joins groups (`_same_cause`): a skip and the break behind it; breaks at one statement or with one
   failed call; recompilations with a common change, once consequences are left out (strides change with sizes); the
   parts of one growing cache; the failure and the break at the line that raised.
3. Weaker evidence joins a recompilation to a break that may have made it: its value comes from the line of the break
   (`_of_breaks`), the break makes a part run as a call of its own (`_of_split_calls`), or makes shared code a frame of
   its own (`_of_own_frames`). The pair with most support comes first, and a group that has a break gets no second one:
   two breaks are not one cause because calls recompile for the results of both.
4. Each group becomes a cause: the failure leads, then a wrong result, then the costliest break (`_lead`). Its cost is
   the sum of what its findings cost; what only a trial can show is left out.
5. Causes are sorted by urgency (`_urgency`), and get ids from what does not change between runs (`_with_ids`).

Example
-------
`n = x.sum().item()` breaks the graph, and the rest of the function recompiles when `n` changes. The break is one
finding, each recompilation is another. Step 2 joins the recompilations, since the same value changes in all of them;
step 3 joins them to the break, since that value comes from its line. The user sees one cause, named after the break,
with the compile time of all recompilations.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from pathlib import PurePath

from msgspec.structs import replace

from ctrace.inspector.diagnosis.decoding import growth_in, is_switch, titled_by_generation
from ctrace.inspector.diagnosis.naming import break_kind, described, steps
from ctrace.inspector.edits.line_edits import functions_at
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootCost, RootKind, Symptom
from ctrace.inspector.facts.findings import Break, BreakKind, Cause, CauseKind, Frame, Owner, Recompile, Skip
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.attention_view import AttentionState, state_of
from ctrace.inspector.source.source_names import RESULT

_SHAPES = frozenset(
    (
        CauseKind.SIZE,
        CauseKind.ZERO_ONE,
        CauseKind.RANGE,
        CauseKind.DUCK_SHAPE,
        CauseKind.STRIDE,
        CauseKind.LENGTH,
        CauseKind.ARGUMENT_VALUE,
    )
)
"""Kinds of causes that one change of an input's size can produce."""
_OF_STATE = frozenset(
    (
        CauseKind.TRAINING_MODE,
        CauseKind.GRAD_MODE,
        CauseKind.AUTOCAST,
        CauseKind.GLOBAL_STATE,
        CauseKind.DISPATCH_KEYS,
        CauseKind.REQUIRES_GRAD,
    )
)
"""Kinds of causes from state outside of functions, such as the grad mode, which affects every function in a call."""
_OF_RESULTS = frozenset((CauseKind.BREAK_RESULT, CauseKind.LENGTH))
"""Kinds of causes that a break on the same line produces: guards on its result, or on a container that stores it."""
_UNTRACEABLE = frozenset((RootKind.UNSUPPORTED_CALL, RootKind.UNSUPPORTED_PYTHON))
"""Kinds of breaks that stay when the numbers on the same line no longer come from tensors."""
_RANK = {Finding.FAILURE: 0, Finding.DANGER: 1, Finding.BREAK: 2, Finding.SKIP: 3, Finding.RECOMPILE: 4}


def root_causes(session: Session) -> tuple[RootCause, ...]:
    """Return all root causes, costliest first."""
    groups = _Groups(_findings(session))
    for first, second in _same_cause(session):
        groups.join(first, second)
    pairs = (*_of_breaks(session), *_of_split_calls(session), *_of_own_frames(session))
    for broken, recompile in groups.strongest_first(pairs):
        # Two breaks are not one cause because calls recompile for the results of both.
        if not groups.has_break(recompile):
            groups.join(broken, recompile)
    made = [_cause(members, session) for members in groups.members()]
    return _with_ids(sorted(made, key=lambda cause: _urgency(cause, session)), session)


def _findings(session: Session) -> Iterator[Symptom]:
    if session.failure is not None:
        yield Symptom(Finding.FAILURE)
    for what, found in (
        (Finding.BREAK, session.breaks),
        (Finding.SKIP, session.skips),
        (Finding.RECOMPILE, session.recompiles),
        (Finding.DANGER, session.dangers),
    ):
        yield from (Symptom(what, index) for index in range(len(found)))
    for index, each in enumerate(session.attention):
        if state_of(each) not in (AttentionState.FUSED, AttentionState.MATCHED):
            yield Symptom(Finding.ATTENTION, index)


class _Groups:
    """Findings joined into groups; each starts as a group of one."""

    def __init__(self, findings: Iterable[Symptom]) -> None:
        self._parent = {each: each for each in findings}

    def join(self, first: Symptom, second: Symptom) -> None:
        if first in self._parent and second in self._parent and self._root(first) is not self._root(second):
            self._parent[self._root(second)] = self._root(first)

    def _root(self, each: Symptom) -> Symptom:
        while self._parent[each] is not each:
            each = self._parent[each]
        return each

    def strongest_first(self, pairs: Iterable[tuple[Symptom, Symptom]]) -> list[tuple[Symptom, Symptom]]:
        """Sort pairs by how many other pairs join the same two groups.

        Of recompilations for a container that grows, the first may also be for the result of an earlier break.
        """
        known = [each for each in pairs if each[0] in self._parent and each[1] in self._parent]
        votes = Counter((self._root(first), self._root(second)) for first, second in known)
        return sorted(known, key=lambda pair: -votes[self._root(pair[0]), self._root(pair[1])])

    def has_break(self, each: Symptom) -> bool:
        """Whether a break is in the group of a finding."""
        root = self._root(each)
        return any(other.what is Finding.BREAK and self._root(other) is root for other in self._parent)

    def members(self) -> list[list[Symptom]]:
        found: dict[Symptom, list[Symptom]] = {}
        for each in self._parent:
            found.setdefault(self._root(each), []).append(each)
        return list(found.values())


def _same_cause(session: Session) -> Iterator[tuple[Symptom, Symptom]]:
    """Yield pairs of findings with the same cause."""
    for index, skip in enumerate(session.skips):
        if skip.break_index is not None:
            yield Symptom(Finding.BREAK, skip.break_index), Symptom(Finding.SKIP, index)
    yield from _pairs(Finding.BREAK, (_break_keys(each) for each in session.breaks))
    yield from _pairs(Finding.RECOMPILE, (_recompile_keys(each) for each in session.recompiles))
    for first, *others in steps(session):
        yield from ((Symptom(Finding.BREAK, first), Symptom(Finding.BREAK, other)) for other in others)
    yield from _of_comprehensions(session)
    yield from _of_generator_expressions(session)
    yield from _of_objects_in_the_way(session)
    yield from _of_generation(session)
    yield from _pairs(Finding.DANGER, ([(each.kind, each.subject)] for each in session.dangers))
    yield from _pairs(Finding.ATTENTION, ([(str(state_of(each)), each.why)] for each in session.attention))
    yield from _of_failure(session)


def _pairs(what: Finding, keys: Iterable[Iterable[Hashable]]) -> Iterator[tuple[Symptom, Symptom]]:
    """Yield pairs that join all findings with a common key; `keys` has the keys of each finding, in order."""
    first: dict[Hashable, int] = {}
    for index, mine in enumerate(keys):
        for key in mine:
            yield Symptom(what, first.setdefault(key, index)), Symptom(what, index)


def _break_keys(each: Break) -> Iterator[Hashable]:
    """Yield keys that breaks with the same cause share: the statement or, outside the user's code, the failed call."""
    yield "line", each.file, each.line, each.source, break_kind(each) in _UNTRACEABLE
    if each.expression:
        # Without the line, since the same expression at two lines is the same mistake.
        yield "expression", each.gb, each.file, each.expression
    if each.kind is BreakKind.DISABLED:
        yield "disabled", each.called or each.reason
    elif each.owner is not Owner.USER:
        inner = {(path[-1].file, path[-1].line) for path in each.paths if path}
        yield from (("inside", each.gb, *place) for place in inner)
        if each.called:
            yield "called", each.gb, each.called


def _recompile_keys(each: Recompile) -> Iterator[Hashable]:
    """Yield keys that recompilations with the same cause share: the changed state, or the change of a call's inputs."""
    if each.shared_by:
        yield "shared", each.function, each.file
        return
    for cause in _without_consequences(each.causes):
        if cause.kind in _OF_STATE:
            yield "state", cause.kind
        elif cause.kind in _SHAPES:
            if each.scenario is not None:  # sizes that change in one call change together
                yield "shapes", each.scenario, each.call
            else:
                yield "shapes", cause.was, cause.now
        # Torch calls the results of all broken calls `___stack0`; the line where a part resumes tells them apart.
        resumes_at = None
        if RESULT in cause.subject:
            resumes_at = each.line
        yield "subject", each.function, each.file, cause.kind, cause.subject, resumes_at
        if cause.kind not in _SHAPES and resumes_at is None:
            # By the last name: `self.layers.0.flag` and `self.layers.1.flag` changed alike.
            yield "change", cause.kind, cause.subject.rpartition(".")[2], cause.was, cause.now
    if not each.causes:
        yield "unknown", each.function, each.file, each.line


def _without_consequences(causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Drop causes that are consequences of others: strides change with sizes, dispatch keys with the grad mode."""
    kinds = {cause.kind for cause in causes}
    if kinds & {CauseKind.SIZE, CauseKind.ZERO_ONE, CauseKind.RANGE, CauseKind.DUCK_SHAPE}:
        follow = {CauseKind.STRIDE}
    else:
        follow = set()
    if CauseKind.GRAD_MODE in kinds:
        follow |= {CauseKind.DISPATCH_KEYS, CauseKind.REQUIRES_GRAD}
    kept = tuple(cause for cause in causes if cause.kind not in follow)
    return kept or causes


def _of_generation(session: Session) -> Iterator[tuple[Symptom, Symptom]]:
    """Join the effects of one growing cache: single tokens after a prompt, and recompilations for new lengths."""
    first: dict[str, int] = {}
    for index, each in enumerate(session.recompiles):
        if is_switch(session, each) or growth_in(session, each) is not None:
            frame = each.compilation.partition("/")[0]
            yield Symptom(Finding.RECOMPILE, first.setdefault(frame, index)), Symptom(Finding.RECOMPILE, index)


_ITERATOR = "GB4347"
"""The id of a break for a function that gets an iterator."""


def _is_of_comprehension(found: Break) -> bool:
    """Whether a comprehension breaks as a function of its own, which gets an iterator as its argument.

    Dynamo inlines comprehensions (Python before 3.12 compiles each as a function). It meets one alone only where the
    code around it runs eagerly, because of another break.
    """
    return _ITERATOR in found.gb and found.place.function.startswith("<")


def _of_comprehensions(session: Session) -> Iterator[tuple[Symptom, Symptom]]:
    """Join the break of a comprehension to a break for which the function around it runs eagerly."""
    leading = [(index, found) for index, found in enumerate(session.breaks) if not _is_of_comprehension(found)]
    for index, found in enumerate(session.breaks):
        if not _is_of_comprehension(found):
            continue
        around = {(path[-2].file, path[-2].function) for path in found.paths if len(path) > 1}
        for lead, broken in leading:
            frames = chain.from_iterable(broken.paths)
            if any((frame.file, frame.function) in around for frame in frames):
                yield Symptom(Finding.BREAK, lead), Symptom(Finding.BREAK, index)
                break


_NOT_REMADE = "GB0092"
"""The id of a break for an object that Dynamo cannot make again in Python."""


def _is_in_the_way(found: Break) -> bool:
    return _NOT_REMADE in found.gb


def _of_generator_expressions(session: Session) -> Iterator[tuple[Symptom, Symptom]]:
    """Join a generator expression to the break that leaves its function in eager: in a graph it is a part of that."""
    eager = {(each.file, each.line): each.break_index for each in session.skips if each.break_index is not None}
    for index, each in enumerate(session.skips):
        around = []
        if each.function == "<genexpr>":
            around = functions_at(session.listings.get(each.file, ""), each.line)
        at = None
        if around:
            at = eager.get((each.file, around[-1].lineno))
        if at is not None:
            yield Symptom(Finding.BREAK, at), Symptom(Finding.SKIP, index)


def _of_objects_in_the_way(session: Session) -> Iterator[tuple[Symptom, Symptom]]:
    """Join an object that cannot be made again to the break at its line, for which alone Dynamo would make it."""
    for index, found in enumerate(session.breaks):
        if not _is_in_the_way(found):
            continue
        for lead, broken in enumerate(session.breaks):
            is_at = (broken.file, broken.line) == (found.file, found.line)
            if is_at and not _is_in_the_way(broken) and set(broken.compilations) & set(found.compilations):
                yield Symptom(Finding.BREAK, lead), Symptom(Finding.BREAK, index)
                break


def _of_breaks(session: Session) -> Iterator[tuple[Symptom, Symptom]]:
    """Join a recompilation to the break at the line where its value comes from."""
    lines: dict[tuple[str, int], int] = {}
    for index, each in enumerate(session.breaks):
        for reached in each.user_lines:
            lines.setdefault((reached.at.file, reached.at.line), index)
    for index, recompile in enumerate(session.recompiles):
        for cause in recompile.causes:
            # Code after a break begins at the break's line, and reads first what the broken call returned.
            at = lines.get((cause.file or recompile.file, cause.line or -1))
            if at is None and cause.subject == RESULT:
                at = lines.get((recompile.file, recompile.line))
            if at is not None and (cause.kind in _OF_RESULTS or cause.subject == RESULT):
                yield Symptom(Finding.BREAK, at), Symptom(Finding.RECOMPILE, index)


def _of_split_calls(session: Session) -> Iterator[tuple[Symptom, Symptom]]:
    """Join a recompilation for inputs with and without gradients to the break that makes a part run as a separate call.

    If a caller runs eagerly because a function that it calls breaks, that function is compiled on its own, and its
    inputs are results of other parts: the first layer gets data, the next ones get what depends on weights.
    """
    for skip in session.skips:
        if skip.break_index is None or skip.break_index >= len(session.breaks):
            continue  # a log that was cut may lack the break
        called = set(_called_from(session, skip, session.breaks[skip.break_index]))
        for index, each in enumerate(session.recompiles):
            kinds = {cause.kind for cause in each.causes}
            inputs = not any("." in cause.subject.removesuffix(".requires_grad") for cause in each.causes)
            if kinds == {CauseKind.REQUIRES_GRAD} and inputs and (each.file, each.line) in called:
                yield Symptom(Finding.BREAK, skip.break_index), Symptom(Finding.RECOMPILE, index)


def _of_own_frames(session: Session) -> Iterator[tuple[Symptom, Symptom]]:
    """Join a recompilation of shared code to the break that makes the code a frame of its own.

    Without the break, the code would be part of its caller's graph, for each of those that share it.
    """
    resumes = {each.id: each.resumes_at for each in session.compilations}
    for index, each in enumerate(session.recompiles):
        broken = None
        if each.shared_by:
            broken = _splitting(session, each, resumes.get(each.compilation))
        if broken is not None:
            yield Symptom(Finding.BREAK, broken), Symptom(Finding.RECOMPILE, index)


def _splitting(session: Session, each: Recompile, resumes_at: int | None) -> int | None:
    """Return the break after which the code resumes, that is inside of it, or that left its caller in eager."""
    begins = {(at.file, at.line) for at in session.compilations} | {(at.file, at.line) for at in session.skips}
    for index, broken in enumerate(session.breaks):
        for path in broken.paths:
            if resumes_at is not None:
                if (each.file, resumes_at, each.function) in {(at.file, at.line, at.function) for at in path}:
                    return index
                continue
            # A compilation is known by the first line of its function, a path by the lines that call.
            inwards = [(at.file, _begin(session, at)) for at in path]
            start = next((number for number, at in enumerate(inwards) if at in begins), len(inwards))
            if (each.file, each.line) in inwards[start + 1 :]:
                return index
    if each.caller is None or resumes_at is not None:
        return None
    caller = each.caller.file, _begin(session, each.caller)
    return next((skip.break_index for skip in session.skips if (skip.file, skip.line) == caller), None)


def _called_from(session: Session, skip: Skip, broken: Break) -> Iterator[tuple[str, int]]:
    """Yield the functions that a skipped function called on the way to a break, by file and first line."""
    for path in broken.paths:
        frames = [(frame.file, _begin(session, frame)) for frame in path]
        if (skip.file, skip.line) in frames:
            yield from frames[frames.index((skip.file, skip.line)) + 1 :]


def _begin(session: Session, frame: Frame) -> int:
    """Return the first line of the function that runs a line, or the line itself if the source is not known."""
    around = functions_at(session.listings.get(frame.file, ""), frame.line)
    if around:
        return around[-1].lineno
    return frame.line


def _of_failure(session: Session) -> Iterator[tuple[Symptom, Symptom]]:
    """Join a failure to the break or skip at the line that raised."""
    failure = session.failure
    if failure is None or failure.file is None:
        return
    for index, each in enumerate(session.breaks):
        if any((line.at.file, line.at.line) == (failure.file, failure.line) for line in each.user_lines):
            yield Symptom(Finding.FAILURE), Symptom(Finding.BREAK, index)


def _cause(members: list[Symptom], session: Session) -> RootCause:
    """Describe a group by its leading finding: the failure, then a wrong result, then the costliest break."""
    ordered = sorted(members, key=lambda each: _lead(each, session))
    cause = described(ordered[0], ordered, session)
    if ordered[0].what is Finding.RECOMPILE:
        cause = titled_by_generation(cause, [session.recompiles[each.index] for each in ordered], session)
    return replace(cause, symptoms=tuple(sorted(members, key=_place)), cost=_cost(members, session))


def lead_of(cause: RootCause, session: Session) -> Symptom:
    """Return the finding that a cause's title describes."""
    return min(cause.symptoms, key=lambda each: _lead(each, session))


def _place(each: Symptom) -> tuple[int, int]:
    return list(Finding).index(each.what), each.index


def _lead(each: Symptom, session: Session) -> tuple[int, bool, bool, int, int]:
    """Return a sort key that puts a finding before those that it explains: a print before the number that it reads."""
    ops, writes, follows = 0, False, False
    if each.what is Finding.BREAK:
        found = session.breaks[each.index]
        ops = found.cost.ops or 0
        writes = break_kind(found) is RootKind.OUTPUT
        follows = _is_of_comprehension(found) or _is_in_the_way(found)
    return _RANK.get(each.what, 9), follows, not writes, -ops, each.index


def _cost(members: list[Symptom], session: Session) -> RootCost:
    """Sum the cost of a group, without the graphs that breaks add, which only a trial can show."""
    seconds = {each.id: each.seconds for each in session.compilations}
    breaks = [session.breaks[each.index].cost for each in members if each.what is Finding.BREAK]
    skips = [session.skips[each.index].cost for each in members if each.what is Finding.SKIP]
    recompiled = {session.recompiles[each.index].compilation for each in members if each.what is Finding.RECOMPILE}
    ops = [cost.ops for cost in (*breaks, *skips)]
    times = [seconds[each] for each in recompiled if seconds.get(each) is not None]
    cost = RootCost(graphs=None, ops=None, seconds=None)
    if recompiled and not breaks and not skips:
        cost = replace(cost, graphs=len(recompiled))
    # A cost that is not known is not 0, and leaves the sum unknown.
    if ops and None not in ops:
        cost = replace(cost, ops=sum(each or 0 for each in ops))
    if times:
        cost = replace(cost, seconds=round(sum(each or 0.0 for each in times), 4))
    return cost


def _urgency(cause: RootCause, session: Session) -> tuple[int, int, int, float, int]:
    """Sort causes: failures and wrong results, then by cost; expected causes come last."""
    kinds = {each.what for each in cause.symptoms}
    if Finding.FAILURE in kinds:
        level = 0
    elif cause.kind is RootKind.WRONG_RESULT:
        level = 1
    elif cause.expected:
        level = 4
    else:
        level = 3 if kinds <= {Finding.ATTENTION} else 2
    # Ops in eager first: they cost at each call, and compile time only once.
    return level, -(cause.cost.ops or 0), -_cuts(cause, session), -(cause.cost.seconds or 0.0), -len(cause.symptoms)


def _cuts(cause: RootCause, session: Session) -> int:
    """Estimate the graphs that a cause adds, for sorting only."""
    graphs = sum(session.breaks[each.index].cost.graphs for each in cause.symptoms if each.what is Finding.BREAK)
    return graphs + sum(each.what is Finding.RECOMPILE for each in cause.symptoms)


def _with_ids(causes: Iterable[RootCause], session: Session) -> tuple[RootCause, ...]:
    """Derive ids from the content of causes: the same code has the same ids in every run."""
    seen: defaultdict[str, int] = defaultdict(int)
    named = []
    for cause in causes:
        file = ""
        if cause.file:
            # Without folders, which another machine has elsewhere.
            file = PurePath(cause.file).name
        # The line itself where it is known, since titles are reworded.
        words = " ".join((cause.source or first_wording(cause.title)).split())
        text = "\0".join((cause.kind, file, cause.function or "", words))
        id_ = f"{cause.kind}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"
        seen[id_] += 1
        named.append(replace(cause, id=id_ if seen[id_] == 1 else f"{id_}-{seen[id_]}"))
    return tuple(named)


FIRST_WORDINGS = {
    "Handwritten attention is not fused": "Attention written by hand is not fused",
    "Handwritten attention was replaced by code that computes wrong results": (
        "Attention written by hand was replaced by something else: the results are wrong"
    ),
    "Handwritten attention was replaced by scaled_dot_product_attention": (
        "Attention written by hand was taken for scaled_dot_product_attention"
    ),
    "Call to scaled_dot_product_attention has": "A call of scaled_dot_product_attention has",
    "A softmax between two matmuls, probably attention,": "A softmax between two products, as attention has it,",
    "A Triton kernel that uses something torch.compile does not support": (
        "Something of a Triton kernel that torch.compile does not take"
    ),
    "Arguments of triton.autotune that torch.compile does not support": (
        "Arguments of triton.autotune that torch.compile does not take"
    ),
    "num_ctas passed in the call": "num_ctas given at the call",
    "An argument that a Triton kernel cannot take in": "An argument that a Triton kernel cannot have in",
    "A Triton kernel that torch does not recognize": "A Triton kernel that torch does not take for one",
    "A NumPy function without a torch equivalent": "A numpy function without a torch twin",
    "A NumPy array that cannot become a tensor": "A numpy array that is no tensor",
    "A method of a NumPy array without a torch equivalent": "A method of a NumPy array without a torch twin",
    "bytes() of a value that is not a constant": "bytes() of something that is no constant",
    "ContextVar.get with a default that is not a constant": "ContextVar.get with a default that is no constant",
    "nn.Parameter of a value that is not a tensor": "nn.Parameter of something that is no tensor",
    "nested_tensor of an iterable that is not a list": "nested_tensor of something that is no list",
    "A __getattr__ that is not a function": "A __getattr__ that is no function",
    "super() and an attribute that is not a method": "super() and an attribute that is no method",
    "length_hint with a default that is not a constant": "length_hint with a default that is no constant",
    "A __length_hint__ that is not a constant": "A __length_hint__ that is no constant",
    "Isinstance of a tensor with a class that overrides the check": (
        "Isinstance of a tensor with a class that answers itself"
    ),
    "Attribute names that are not plain strings": "Attribute names that are no plain strings",
    "A while_loop whose condition is not a scalar bool": "A while_loop whose condition is no scalar bool",
    "A grid that is not a tuple": "A grid that is no tuple",
    "An autograd.Function whose forward or backward is not a function": (
        "An autograd.Function whose forward or backward is no function"
    ),
}
"""The old beginning for each new beginning of a title. Ids are derived from the old one, so they never change."""


def first_wording(title: str) -> str:
    """Return the old wording of a title, from which its id is derived."""
    return next((title.replace(now, first, 1) for now, first in FIRST_WORDINGS.items() if title.startswith(now)), title)
