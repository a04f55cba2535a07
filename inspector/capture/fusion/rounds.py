"""Collect what one call of `Scheduler.fuse_nodes` does, as tables of small numbers."""

from typing import Any

from ctrace.inspector.facts.events.fusion import RecordedRound


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
        self._tried, self._scores = set(), {}
        self.rounds.append(RecordedRound(before, before, reorder, 0, pairs=[], candidates=[], refused=[]))

    def end(self, after: int) -> None:
        """End the round with `after` nodes."""
        self.rounds[-1].after, self.rounds[-1].tried = after, len(self._tried)

    def count_pair(self, first: Any, second: Any) -> None:
        """Count a pair of nodes that the scheduler tries to fuse."""
        pair = self._pair(first, second)
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
