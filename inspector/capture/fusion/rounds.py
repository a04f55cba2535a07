"""What the scheduler does in one call of `Scheduler.fuse_nodes`, as tables of small numbers."""

from typing import Any


class Rounds:
    """The rounds of one call: pairs asked about, refused, found and fused.

    Names and reasons are kept once, since most of them recur in every round.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.reasons: dict[str, int] = {}
        self.rounds: list[dict[str, Any]] = []
        self.told = 0
        """How often torch gave a reason."""
        self.asking = False
        """Whether the scheduler is in `can_fuse`, which asks about other pairs in turn."""
        self._nodes: dict[Any, int] = {}  # a fused node joins all its names each time that it is asked for its own
        self._tried: set[tuple[int, int]] = set()
        self._scores: dict[tuple[int, int], Any] = {}

    def begin(self, before: int, *, reorder: bool) -> None:
        """Start a round with so many nodes."""
        self._tried, self._scores = set(), {}
        self.rounds.append(
            {"before": before, "after": before, "reorder": reorder, "pairs": [], "candidates": [], "refused": []}
        )

    def end(self, after: int) -> None:
        """End the round with so many nodes."""
        self.rounds[-1].update(after=after, tried=len(self._tried))

    def ask(self, first: Any, second: Any) -> None:
        """Count a pair of nodes that the scheduler asks about."""
        pair = self._pair(first, second)
        self._tried.add((min(pair), max(pair)))

    def refuse(self, first: Any, second: Any, reason: str = "") -> None:
        """Note a pair of nodes that was refused, which torch gave no reason for."""
        self._refuse(*self._pair(first, second), reason)

    def tell(self, first: str, second: str, reason: str) -> None:
        """Note a reason that torch gave, with the names of the nodes."""
        self.told += 1
        if self.rounds:
            self._refuse(self._name(first), self._name(second), reason)

    def score(self, first: Any, second: Any, score: Any) -> None:
        """Keep the score of a pair of nodes."""
        self._scores[self._pair(first, second)] = score

    def find(self, pairs: list[tuple[Any, Any]]) -> None:
        """Note the pairs of nodes that can be fused, in the order in which they will be."""
        rows = [self._pair(*pair) for pair in pairs]
        self.rounds[-1]["candidates"] = [[*row, *_numbers(self._scores.get(row))] for row in rows]

    def fuse(self, first: str, second: str) -> None:
        """Note a pair that was fused."""
        if self.rounds:
            self.rounds[-1]["pairs"].append([self._name(first), self._name(second)])

    def _refuse(self, first: int, second: int, reason: str) -> None:
        number = self.reasons.setdefault(reason, len(self.reasons))
        self.rounds[-1]["refused"].append([first, second, number])

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
    """Take a `FusionScore` apart (2.13, choices.py:74; 2.11 has no `buffer_overlap_score`); empty: of another kind."""
    if not hasattr(score, "memory_score"):
        return []
    return [
        int(score.template_score),
        int(score.node_type_score),
        int(score.memory_score),
        int(getattr(score, "buffer_overlap_score", 0)),
        int(score.proximity_score),
    ]
