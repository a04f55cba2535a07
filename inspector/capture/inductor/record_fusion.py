"""Record the scheduler's fusion rounds as data (`fusion`): tables of small numbers, one set for each call (`Rounds`).

Torch only prints them, as debug text of the artifact logger `fusion` (2.13, _inductor/scheduler.py:112, rounds at
4986). The hook replaces that logger: it receives the same messages with their arguments, and passes them on if the user
enabled them. This costs less than logging: no log record is made, and no candidate is printed. Wrappers around the
scheduler's methods supply what torch does not log: the pairs that it tries, scores, the last round. Reasons from
choices.py and the backends come through the same logger, because they use the scheduler's `WhyNoFuse`.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

from ctrace.inspector.capture.core.hook import When
from ctrace.inspector.capture.core.part import current_stage
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.inductor.fusion_nodes import GraphPart
from ctrace.inspector.facts.fusion_facts import FusionRecord, RecordedRound


class Rounds:
    """The rounds of one call: pairs that the scheduler tries, refuses, finds fusable and fuses.

    Names and reasons are stored once, because most of them recur in every round.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.reasons: dict[str, int] = {}
        self.rounds: list[RecordedRound] = []
        self.reasons_logged = 0
        """How many reasons torch has logged."""
        self.is_in_can_fuse = False
        """Whether the scheduler is in `can_fuse`, which may call itself for other pairs."""
        self._nodes: dict[Any, int] = {}  # a fused node rebuilds its name from its members' on every access
        self._tried: set[tuple[int, int]] = set()
        self._scores: dict[tuple[int, int], Any] = {}

    def begin(self, before: int, *, reorder: bool) -> None:
        """Start a round with `before` nodes."""
        # In each round from the start: fused nodes are other nodes, with other pairs.
        self._tried, self._scores = set(), {}
        self.rounds.append(RecordedRound(before, before, reorder, 0, pairs=[], candidates=[], refused=[]))

    def end(self, after: int) -> None:
        """End the round with `after` nodes."""
        self.rounds[-1].after, self.rounds[-1].tried = after, len(self._tried)

    def count_pair(self, first: Any, second: Any) -> None:
        """Count a pair of nodes that the scheduler tries to fuse."""
        pair = self._pair(first, second)
        # Torch asks for a pair in both orders if the second is a template, and it counts once (scheduler.py, 2.13).
        self._tried.add((min(pair), max(pair)))

    def refuse(self, first: Any, second: Any, reason: str = "") -> None:
        """Record a refused pair of nodes; an empty reason means that torch logged none."""
        self._refuse(*self._pair(first, second), reason)

    def add_reason(self, first: str, second: str, reason: str) -> None:
        """Record a reason that torch logged, with the names of the nodes."""
        self.reasons_logged += 1
        if self.rounds:
            self._refuse(self._name(first), self._name(second), reason)

    def score(self, first: Any, second: Any, score: Any) -> None:
        """Record the score of a pair of nodes."""
        self._scores[self._pair(first, second)] = score

    def find(self, pairs: list[tuple[Any, Any]]) -> None:
        """Record the pairs of nodes that can be fused, in the order of fusion."""
        rows = [self._pair(*pair) for pair in pairs]
        self.rounds[-1].candidates = [(*row, *_numbers(self._scores.get(row))) for row in rows]

    def fuse(self, first: str, second: str) -> None:
        """Record a fused pair."""
        if self.rounds:
            self.rounds[-1].pairs.append((self._name(first), self._name(second)))

    def _refuse(self, first: int, second: int, reason: str) -> None:
        number = self.reasons.setdefault(reason, len(self.reasons))
        self.rounds[-1].refused.append((first, second, number))

    def _pair(self, first: Any, second: Any) -> tuple[int, int]:
        return self._number(first), self._number(second)

    def _number(self, node: Any) -> int:
        known = self._nodes.get(node)
        if known is None:
            known = self._nodes[node] = self._name(node.get_name())
        return known

    def _name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))


def _numbers(score: Any) -> list[int]:
    """Return the fields of a `FusionScore` (2.13, choices.py:74; 2.11 lacks `buffer_overlap_score`), or nothing."""
    if not hasattr(score, "memory_score"):
        return []
    return [
        int(score.template_score),
        int(score.node_type_score),
        int(score.memory_score),
        int(getattr(score, "buffer_overlap_score", 0)),
        int(score.proximity_score),
    ]


_SLOWER = "a benchmark found the fused kernel slower"
"""Torch logs this reason only as text, and only if the logger is enabled (2.13, scheduler.py:5330)."""


class _Now(threading.local):
    """The call of `fuse_nodes` that this thread is in."""

    rounds: Rounds | None = None


class _FusionLog:
    """Replaces the logger."""

    def __init__(self, logger: logging.Logger, now: _Now, recorder: Recorder) -> None:
        self._logger, self._now, self._recorder = logger, now, recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def debug(self, message: Any, *args: Any, **kwargs: Any) -> None:
        if self._now.rounds is not None:
            with self._recorder.watching("a message of the scheduler"):
                _record_message(self._now.rounds, message, args)
        if self._logger.isEnabledFor(logging.DEBUG):
            self._logger.debug(message, *args, **kwargs)


def _record_message(rounds: Rounds, message: Any, args: tuple[Any, ...]) -> None:
    if not isinstance(message, str):  # a WhyNoFuse
        rounds.add_reason(message.name1, message.name2, message.reason % message.args)
    elif message.startswith("fusing %s with %s") and len(args) == 2:
        rounds.fuse(str(args[0]), str(args[1]))


@contextmanager
def fusion(recorder: Recorder, when: When) -> Iterator[None]:
    """Record, for each graph part, the nodes before and after fusion, every round and the outcome for every pair."""
    with ExitStack() as patches:

        def install(scheduler: ModuleType) -> None:
            hooks = _Hooks(recorder)
            with recorder.watching("fusion"):
                # `WhyNoFuse` and the rounds call `fusion_log.debug` by the module's name (scheduler.py, 2.13).
                log = _FusionLog(scheduler.fusion_log, hooks.now, recorder)
                patches.enter_context(patched(scheduler, "fusion_log", log))
            # Each by itself: if a release has moved one method, the others still tell their part.
            for name, wrap in hooks.all():
                with recorder.watching("fusion"):
                    original = getattr(scheduler.Scheduler, name)
                    patches.enter_context(patched(scheduler.Scheduler, name, wrap(original)))

        when("torch._inductor.scheduler", install)
        yield


class _Hooks:
    """Wrappers around the scheduler's methods; each calls the method and returns its result."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.now = _Now()

    def all(self) -> list[tuple[str, Callable[[Any], Any]]]:
        """Return the names of the methods with their wrappers."""
        return [
            # Around all rounds of a graph part; the others below run inside of it, and tell about its rounds.
            ("fuse_nodes", self._fuse_nodes),
            # One round; torch makes at most ten, and ends when a round fuses nothing (2.13).
            ("fuse_nodes_once", self._fuse_nodes_once),
            # Asked for each pair, and inside of that for the pairs that it consists of.
            ("can_fuse", self._can_fuse),
            # The key by which torch sorts the pairs that can be fused.
            ("score_fusion_key", self._score_fusion_key),
            # Returns these pairs, the best first.
            ("get_possible_fusions", self._get_possible_fusions),
            # The last word on a pair with a template, or with `benchmark_fusion`.
            ("speedup_by_fusion", self._speedup_by_fusion),
        ]

    def _fuse_nodes(self, original: Any) -> Any:
        def fuse_nodes(scheduler: Any, nodes: list[Any]) -> list[Any]:
            if not self._recorder.keeps("fusion"):
                return cast(list[Any], original(scheduler, nodes))
            # `outer`: to time a choice that is a graph (`SubgraphChoiceCaller`), torch lowers and schedules that graph
            # in the middle of this one.
            part, before, outer = GraphPart(scheduler, self._recorder), len(nodes), self.now.rounds
            with self._recorder.watching("the nodes of a graph part"):
                part.see(nodes)
            rounds = self.now.rounds = Rounds()
            try:
                fused: list[Any] = original(scheduler, nodes)
            finally:
                self.now.rounds = outer
            with self._recorder.watching("fusion"):
                self._record(rounds, part, before, fused)
            return fused

        return fuse_nodes

    def _record(self, rounds: Rounds, part: GraphPart, before: int, fused: list[Any]) -> None:
        record = FusionRecord(
            stage=current_stage(),
            before=before,
            after=len(fused),
            refused=rounds.reasons_logged,
            rounds=tuple(rounds.rounds),
            names=tuple(rounds.names),
            reasons=tuple(rounds.reasons),
        )
        with self._recorder.watching("the nodes of a graph part"):
            record = part.added_to(record, fused)
        self._recorder.add(record)

    def _fuse_nodes_once(self, original: Any) -> Any:
        def fuse_nodes_once(scheduler: Any, nodes: list[Any], *args: Any, **kwargs: Any) -> list[Any]:
            rounds = self.now.rounds
            if rounds is not None:
                rounds.begin(len(nodes), reorder=bool(kwargs.get("is_reorder_round", args[0] if args else False)))
            left: list[Any] = original(scheduler, nodes, *args, **kwargs)
            if rounds is not None:
                rounds.end(len(left))
            return left

        return fuse_nodes_once

    def _can_fuse(self, original: Any) -> Any:
        def can_fuse(scheduler: Any, first: Any, second: Any, *args: Any, **kwargs: Any) -> Any:
            rounds = self.now.rounds
            # Only the outermost question is a pair that the scheduler tries; the inner ones serve it.
            if rounds is None or rounds.is_in_can_fuse:
                return original(scheduler, first, second, *args, **kwargs)
            rounds.is_in_can_fuse, logged_before = True, rounds.reasons_logged
            try:
                possible = original(scheduler, first, second, *args, **kwargs)
            finally:
                rounds.is_in_can_fuse = False
            with self._recorder.watching("a pair of the scheduler"):
                rounds.count_pair(first, second)
                if not possible and rounds.reasons_logged == logged_before:
                    rounds.refuse(first, second)
            return possible

        return can_fuse

    def _score_fusion_key(self, original: Any) -> Any:
        def score_fusion_key(scheduler: Any, nodes: tuple[Any, Any]) -> Any:
            score = original(scheduler, nodes)
            if self.now.rounds is not None:
                with self._recorder.watching("the score of a pair"):
                    self.now.rounds.score(*nodes, score)
            return score

        return score_fusion_key

    def _get_possible_fusions(self, original: Any) -> Any:
        def get_possible_fusions(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = original(scheduler, *args, **kwargs)
            if self.now.rounds is not None:
                with self._recorder.watching("the pairs that can be fused"):
                    self.now.rounds.find(pairs)
            return pairs

        return get_possible_fusions

    def _speedup_by_fusion(self, original: Any) -> Any:
        def speedup_by_fusion(scheduler: Any, first: Any, second: Any) -> Any:
            rounds = self.now.rounds
            logged_before = 0
            if rounds is not None:
                logged_before = rounds.reasons_logged
            result = original(scheduler, first, second)
            if rounds is None:
                return result
            # Torch compiles the fused kernel in the background, and asks for its times later (scheduler.py, 2.13,
            # `pending_fusions`).
            if result.callable_fn is not None:  # the benchmark has not run yet
                return replace(result, callable_fn=lambda: self._judge(rounds, first, second, result.callable_fn))
            self._judge(rounds, first, second, lambda: result.should_fuse, logged_before)
            return result

        return speedup_by_fusion

    def _judge(self, rounds: Rounds, first: Any, second: Any, judge: Any, logged_before: int | None = None) -> bool:
        if logged_before is None:
            logged_before = rounds.reasons_logged
        faster = bool(judge())
        if not faster and rounds.reasons_logged == logged_before:
            with self._recorder.watching("a benchmark of the scheduler"):
                rounds.refuse(first, second, _SLOWER)
        return faster
