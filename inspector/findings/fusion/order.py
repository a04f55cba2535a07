"""List for each round of fusion the fused pairs, and what decided their order."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest

from msgspec import Struct

from ctrace.inspector.facts.fusion_facts import Fusion, FusionCandidate, FusionRound, Score

MOST_ROUNDS = 10
"""Torch stops after this many rounds (2.11 to 2.13, _inductor/scheduler.py, Scheduler.fuse_nodes)."""
_CLEAR = 16
"""Above this ratio, shared bytes rank before equal kinds (2.11 to 2.13, _inductor/choices.py, FusionScore)."""


class Ranked(Struct, frozen=True):
    """A pair that may be fused, at its rank in the round."""

    candidate: FusionCandidate
    deciding: str
    """The field of `Score` that ranks the pair before the next one; empty for equal scores and for the last pair."""
    next: Score | None
    """The score of the next pair."""
    fused: tuple[str, str] | None
    """The names of both nodes when torch fused them, with nodes fused before; None if torch did not fuse them."""
    is_joined: bool = False
    """Whether earlier fusions in the round had already put both into one node."""


def ranked(round_: FusionRound) -> tuple[Ranked, ...]:
    """Return the fusible pairs of a round in the order in which Inductor tried them."""
    taken, made = _fused_pairs_by_candidate(round_), [_parts(first) | _parts(second) for first, second in round_.fused]
    return tuple(
        Ranked(
            each,
            _deciding(each, after),
            after.score if after else None,
            taken.get(number),
            number not in taken and any(_parts(each.first) | _parts(each.second) <= whole for whole in made),
        )
        for number, (each, after) in enumerate(zip_longest(round_.candidates, round_.candidates[1:]))
    )


def unranked(round_: FusionRound) -> tuple[tuple[str, str], ...]:
    """Return the fused pairs that no recorded candidate matches; in the log of an older ctrace, these are all pairs."""
    taken = list(_fused_pairs_by_candidate(round_).values())
    return tuple(pair for pair in round_.fused if pair not in taken)


def rounds(fusion: Fusion) -> Iterator[tuple[str, FusionRound]]:
    """Yield the rounds with their names: `round 1`, ..., and `reorder pass` for the round that may reorder loops."""
    for number, each in enumerate(fusion.rounds, 1):
        yield "reorder pass" if each.reorder else f"round {number}", each


def ending(fusion: Fusion) -> str:
    """Explain why there was no further round; empty if not known."""
    usual = [each for each in fusion.rounds if not each.reorder]
    if not usual:
        return ""
    if usual[-1].after == 1:
        return "one node is left"
    if usual[-1].after == usual[-1].before:
        return "nothing more could be fused"
    if len(usual) >= MOST_ROUNDS:
        return f"torch stops after {MOST_ROUNDS} rounds"
    return ""


def _deciding(each: FusionCandidate, after: FusionCandidate | None) -> str:
    if after is None or each.score is None or after.score is None:
        return ""
    mine, other = each.score, after.score
    is_far = max(mine.shared, other.shared) > _CLEAR * min(mine.shared, other.shared)
    names = ("template", *(["shared"] if is_far else []), "kind", "shared", "overlap", "proximity")
    return next((name for name in names if getattr(mine, name) != getattr(other, name)), "")


def _fused_pairs_by_candidate(round_: FusionRound) -> dict[int, tuple[str, str]]:
    """Map the number of each candidate to the fused pair that contains both of its nodes.

    Earlier fusions in the round may have extended either node; torch joins names with `_`.
    """
    left = {pair: (_parts(pair[0]), _parts(pair[1])) for pair in round_.fused}
    found = {}
    for number, each in enumerate(round_.candidates if left else ()):
        first, second = _parts(each.first), _parts(each.second)
        for pair, (one, other) in left.items():
            if (first <= one and second <= other) or (first <= other and second <= one):
                found[number] = pair
                del left[pair]
                break
    return found


@lru_cache(maxsize=4096)
def _parts(name: str) -> frozenset[str]:
    return frozenset(name.split("_"))
