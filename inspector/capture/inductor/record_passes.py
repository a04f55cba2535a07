"""Record what each of Inductor's graph passes changes.

Every pass runs inside a `GraphTransformObserver` (2.11 to 2.13, fx/passes/graph_transform_observer.py), whose own
records need a torch setting. The hook compares the graph when an observer is entered and left. Passes nest: a change
belongs to the innermost one. Pattern matches come from `PatternEntry.apply` (_inductor/pattern_matcher.py), which
`PatternMatcherPass.apply` counts as `pattern_matcher_count`; `pattern_name` names a pattern.

`lines_of_replacements` finds where nodes come from that a pattern puts in place of others. Torch gives such a node the
stack trace of what it replaces only if that is a single node (2.13, _inductor/pattern_matcher.py:
`Match.replace_by_example`). All others have none, such as an attention written by hand, which in training is replaced
by a whole graph of its own: no kernel of it would have a line.
"""

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import ModuleType
from typing import Any
from weakref import WeakSet

from msgspec import Struct, field

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.node_lines import REPLACED, modules_of, stack_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.facts.bytecode_facts import ModulesSeen
from ctrace.inspector.facts.passes import Pass, Pattern

_ATTENTION = "_sfdp_pattern_"


def pattern_name(entry: Any) -> str:
    """Return a pattern's name: torch's name if it has one, else that of the search or replacement function."""
    own = getattr(entry, "pattern_name", None)
    if own:
        return str(own)
    function = search_function(entry) or getattr(entry, "handler", None)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    # A decorated or partial handler may have no name.
    return str(name or getattr(getattr(function, "func", None), "__name__", None) or type(entry).__name__)


def search_function(entry: Any) -> Any:
    """Return the search function of a replacement, or None for another kind of pattern.

    `register_replacement` keeps it only in its closure `check_fn`.
    """
    return closed_over(getattr(entry, "extra_check", None), "search_fn")


def is_attention_pattern(entry: Any) -> bool:
    """Whether an entry is one of the attention patterns (2.11 to 2.13, _inductor/fx_passes/fuse_attention.py)."""
    return str(getattr(search_function(entry), "__name__", "")).startswith(_ATTENTION)


def closed_over(function: Any, name: str) -> Any:
    """Return the value of a variable in a closure, or None if there is none."""
    # Our own hook wraps `extra_check` and names the original as `__wrapped__`.
    if callable(function):
        function = inspect.unwrap(function)
    else:
        function = None
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or not cells:
        return None
    return next((cell.cell_contents for free, cell in zip(code.co_freevars, cells, strict=True) if free == name), None)


# Chosen: the lists are for a reader, and the counts by op beside them are complete.
_MOST = 400
"""How many nodes of a kind are listed for one pass; the rest is counted."""
_STACKS = 6
"""How many places are kept for one pattern in one pass."""
_ENTRIES = ("LoweringPatternEntry", "GraphPatternEntry", "ReplacementPatternEntry")
_TRACED = "pre_grad_passes"
"""The passes on what Dynamo traced, whose nodes `inspector/capture/dynamo/backend_of_graph.py` records."""
_COUNTER = "pattern_matcher_count"

_Seen = dict[str, tuple[Any, Any]]
"""Target and argument tuple of each node, keyed by name and in graph order.

Compare them by identity: comparing symbolic sizes for equality would add a guard.
"""


class _Applied(Struct):
    """A pattern that a pass applied."""

    times: int = 0
    nodes: int = 0
    ops: dict[str, None] = field(default_factory=dict)
    stacks: dict[str, None] = field(default_factory=dict)


class _Open(Struct):
    """A running pass, and its changes so far without those of nested passes."""

    module: Any
    name: str
    subsystem: str | None
    since: _Seen | None
    """None if the pass works on a graph of torch, such as a retraced pattern, and not on a user's."""
    counted_since: Counter[str]
    before: int
    created: dict[str, str] = field(default_factory=dict)
    erased: dict[str, str] = field(default_factory=dict)
    retargeted: dict[str, tuple[str, str]] = field(default_factory=dict)
    rewired: set[str] = field(default_factory=set)
    moved: bool = False
    counted: Counter[str] = field(default_factory=Counter)
    patterns: dict[str, _Applied] = field(default_factory=dict)

    def look(self, counted: Counter[str]) -> None:
        """Add the changes since the last call."""
        self.counted.update(_gained(self.counted_since, counted))
        self.counted_since = counted
        if self.since is None:
            return
        before, self.since = self.since, _seen(self.module.graph)
        self._compare(before, self.since)

    def restart(self, counted: Counter[str]) -> None:
        """Ignore the changes since the last call, which belong to another pass."""
        self.counted_since = counted
        self.since = None if self.since is None else _seen(self.module.graph)

    def _compare(self, before: _Seen, after: _Seen) -> None:
        for name, (target, arguments) in before.items():
            now = after.get(name)
            if now is None:
                if self.created.pop(name, None) is None:  # a node that it created and removed is no change
                    self.erased[name] = target_name(target)
            elif now[0] is not target and now[0] != target:
                self.retargeted[name] = (target_name(target), target_name(now[0]))
            # FX makes a new tuple whenever it sets a node's arguments (fx/node.py), so another one means a write.
            elif now[1] is not arguments:
                self.rewired.add(name)
        for name, (target, _arguments) in after.items():
            if name not in before:
                self.created[name] = target_name(target)
        self.moved = self.moved or [name for name in before if name in after] != [
            name for name in after if name in before
        ]

    @property
    def has_changed(self) -> bool:
        return bool(self.created or self.erased or self.retargeted or self.rewired or self.moved or self.patterns)


class _Passes:
    """Follows the passes of each thread."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._current = threading.local()
        self._noted: WeakSet[Any] = WeakSet()

    def enter(self, observer: Any) -> None:
        if not self._recorder.keeps("pass"):
            return
        opened = self._opened()
        counted = _counters()
        # What the outer pass has changed so far is its own; `restart` skips what the inner one changes.
        for outer in opened[-1:]:
            outer.look(counted)
        # While torch traces a pattern's replacement, its passes run on that small graph, in the middle of a pass on the
        # user's.
        foreign = _is_torchs_own() or (bool(opened) and opened[0].module is not observer.gm)
        seen = None
        if not foreign:
            seen = _seen(observer.gm.graph)
        subsystem = observer.subsystem or (opened[-1].subsystem if opened else None)
        if not (foreign or opened or subsystem == _TRACED):
            self._note_modules(observer.gm)
        opened.append(_Open(observer.gm, observer.passname, subsystem, seen, counted, len(seen or ())))

    def _note_modules(self, module: Any) -> None:
        """Record the modules of the nodes of a graph of aten ops once, before a pass changes it."""
        if module in self._noted:
            return
        self._noted.add(module)
        with self._recorder.watching("the modules of a graph"):
            self._recorder.add(ModulesSeen(False, modules_of(module.graph)))

    def leave(self, observer: Any) -> None:
        if not self._recorder.keeps("pass"):
            return
        opened = self._opened()
        if not opened or opened[-1].module is not observer.gm or opened[-1].name != observer.passname:
            self._recorder.problem("what Inductor's passes changed could not be recorded: they do not nest")
            opened.clear()
            return
        done = opened.pop()
        counted = _counters()
        done.look(counted)
        for outer in opened[-1:]:
            outer.restart(counted)
        # An inner pass without changes is one of dozens in each graph; an outer one says that its stage ran.
        if done.since is not None and (done.has_changed or done.counted or not opened):
            self._recorder.add(_described(done, tuple(each.name for each in opened)))

    def applied(self, entry: Any, match: Any) -> None:
        """Record a pattern that torch is about to apply."""
        for at in self._opened()[-1:]:
            pattern = at.patterns.setdefault(pattern_name(entry), _Applied())
            pattern.times += 1
            pattern.nodes += len(match.nodes)
            for node in match.nodes:
                pattern.ops.setdefault(target_name(node.target))
                stack = node.meta.get("stack_trace")
                if stack and len(pattern.stacks) < _STACKS:
                    pattern.stacks.setdefault(stack)

    def _opened(self) -> list[_Open]:
        opened: list[_Open] | None = getattr(self._current, "opened", None)
        if opened is None:
            opened = self._current.opened = []
        return opened


@contextmanager
def passes(recorder: Recorder, when: When) -> Iterator[None]:
    """Record each pass on a user's graph, with the patterns that it applied."""
    following = _Passes(recorder)
    with ExitStack() as patches:

        def install_observer(module: ModuleType) -> None:
            observer = module.GraphTransformObserver
            with recorder.watching("passes"):
                # Both ends of `with GraphTransformObserver(...)`, in which torch runs each pass.
                for name, hook, first in (("__enter__", following.enter, True), ("__exit__", following.leave, False)):
                    wrapped = _also(recorder, getattr(observer, name), hook, first=first)
                    patches.enter_context(patched(observer, name, wrapped))

        def install_patterns(module: ModuleType) -> None:
            # Each of the three kinds of entries has an `apply` of its own.
            for name in _ENTRIES:
                with recorder.watching("patterns"):
                    entry = getattr(module, name)
                    patches.enter_context(patched(entry, "apply", _with_hook(recorder, entry.apply, following.applied)))

        when("torch.fx.passes.graph_transform_observer", install_observer)
        when("torch._inductor.pattern_matcher", install_patterns)
        yield


def _also(recorder: Recorder, original: Any, hook: Callable[[Any], None], *, first: bool) -> Any:
    """Call a hook before or after a method of the observer."""

    def method(self: Any, *args: Any) -> Any:
        result = None
        if not first:
            result = original(self, *args)
        with recorder.watching("a pass"):
            hook(self)
        if first:
            return original(self, *args)
        return result

    return method


def _with_hook(recorder: Recorder, original: Any, note: Callable[[Any, Any], None]) -> Any:
    def apply(self: Any, match: Any, graph: Any, node: Any) -> Any:
        with recorder.watching("a pattern"):
            note(self, match)
        return original(self, match, graph, node)

    return apply


def _seen(graph: Any) -> _Seen:
    # `_args`, past the property: this runs for each node of a graph, at both ends of each pass.
    return {node.name: (node.target, node._args) for node in graph.nodes}


def _is_torchs_own() -> bool:
    """Whether torch is registering its patterns, which it traces outside any compilation."""
    from torch._guards import TracingContext

    return TracingContext.try_get() is None


def _counters() -> Counter[str]:
    from torch._dynamo.utils import counters

    return Counter(counters["inductor"])


def _gained(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    return {name: number - before[name] for name, number in after.items() if number > before[name]}


def _described(done: _Open, within: tuple[str, ...]) -> Pass:
    stage, subsystem = stage_of(done.module.graph, done.subsystem), done.subsystem or ""
    if not done.has_changed and not done.counted:
        return Pass(done.name, stage, within, done.before, subsystem=subsystem)
    return Pass(
        name=done.name,
        stage=stage,
        within=within,
        before=done.before,
        after=len(done.since or ()),
        subsystem=subsystem,
        created=tuple(done.created.items())[:_MOST],
        erased=tuple(done.erased.items())[:_MOST],
        created_ops=dict(Counter(done.created.values())),
        erased_ops=dict(Counter(done.erased.values())),
        retargeted=tuple((name, *targets) for name, targets in list(done.retargeted.items())[:_MOST]),
        # A node that the pass created or erased is counted there already.
        rewired=len(done.rewired - done.created.keys() - done.erased.keys()),
        moved=done.moved,
        counters=dict(done.counted),
        matches=sum(pattern.times for pattern in done.patterns.values()),
        counted=done.counted[_COUNTER],
        patterns=tuple(_pattern(name, applied) for name, applied in done.patterns.items()),
    )


def _pattern(name: str, applied: _Applied) -> Pattern:
    return Pattern(name, applied.times, applied.nodes, tuple(applied.ops), tuple(applied.stacks))


def stage_of(graph: Any, subsystem: str | None) -> str:
    """Return a graph's stage by AOTAutograd's names for its inputs (2.11 to 2.13, _functorch/partitioners.py:177)."""
    if subsystem == "pre_grad_passes":
        return "pre_grad"
    names = [str(node.target) for node in graph.nodes if node.op == "placeholder"]
    # Tangents first: a joint graph has both kinds of inputs.
    if any(name.startswith("tangents_") for name in names):
        if subsystem == "joint_graph_passes":
            return "joint"
        return "backward"
    if any(name.startswith("primals_") for name in names):
        return "forward"
    return "inference"


def target_name(target: Any) -> str:
    """Return a target's name as torch prints it: `aten.add.Tensor`; a Python function by module and name."""
    if isinstance(target, str):
        return target
    module = getattr(target, "__module__", "") or ""
    if "_ops" in module and "Overload" in type(target).__name__:
        return str(target)
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or str(target)
    if module and module != "builtins":
        return f"{module}.{name}"
    return str(name)


_WITH_REPLACEMENTS = ("GraphPatternEntry", "ReplacementPatternEntry")
"""The third kind, a lowering, copies the trace itself."""


@contextmanager
def replaced_nodes(recorder: Recorder, when: When) -> Iterator[None]:
    """Note the lines of replaced nodes in those that replace them."""
    with ExitStack() as patches:

        def install(_module: ModuleType) -> None:
            with recorder.watching("lines of replaced nodes"):
                patches.enter_context(lines_of_replacements(lambda: recorder.watching("lines of replaced nodes")))

        when("torch._inductor.pattern_matcher", install)
        yield


@contextmanager
def lines_of_replacements(watching: Callable[[], Any] = ExitStack) -> Iterator[None]:
    """Note them in the block; what fails in `watching()` is not noted."""
    from torch._inductor import pattern_matcher

    with ExitStack() as patches:
        for name in _WITH_REPLACEMENTS:
            entry = getattr(pattern_matcher, name)
            patches.enter_context(patched(entry, "apply", _noting(entry.apply, watching)))
        yield


def _noting(original: Any, watching: Callable[[], Any]) -> Any:
    @wraps(original)
    def apply(self: Any, match: Any, graph: Any, node: Any) -> Any:
        made: list[Any] = []
        stacks: list[tuple[tuple[Any, ...], str]] = []
        with watching():
            # Nodes compare by their place in the graph, so the last stack is that of the result.
            stacks = [(_key(each), stack) for each in sorted(match.nodes) if (stack := stack_of(each))]
        module = graph.owning_module
        if not stacks or module is None:
            return original(self, match, graph, node)
        with ExitStack() as hooks:
            with watching():
                # 2.13 and 2.14, fx/graph_module.py: `Graph.create_node` calls these hooks of the graph's module.
                module._register_create_node_hook(made.append)
                hooks.callback(module._unregister_create_node_hook, made.append)
            result = original(self, match, graph, node)
        with watching():
            _note(made, stacks)
        return result

    return apply


def _note(made: Sequence[Any], stacks: Sequence[tuple[tuple[Any, ...], str]]) -> None:
    """Note in each new node the trace of the equal operator that it replaces.

    Any other gets the trace of the next node that has one: it is computed for that node, or is part of the same result.
    """
    waiting: dict[tuple[Any, ...], list[str]] = {}
    for key, stack in stacks:
        waiting.setdefault(key, []).append(stack)
    new = [each for each in made if each.op == "call_function" and not stack_of(each)]
    found = [(each, _next(waiting.get(_key(each)))) for each in new]
    following = stacks[-1][1]
    for each, stack in reversed(found):
        following = each.meta[REPLACED] = stack or following


def _next(waiting: list[str] | None) -> str:
    """Return the first trace that no node took; the last one is for all that follow."""
    if not waiting:
        return ""
    if len(waiting) > 1:
        return waiting.pop(0)
    return waiting[0]


def _key(node: Any) -> tuple[Any, ...]:
    """Return what tells operators apart; comparing symbolic sizes would add a guard, their text adds none."""
    return node.target, str(getattr(node.meta.get("val"), "shape", ""))
