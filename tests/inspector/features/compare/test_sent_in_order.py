"""Where ranks of one process group part in what they communicate."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.cluster_facts import (
    ClusterFacts,
    CollectiveCalled,
    CollectiveOrigin,
    GraphCalled,
    GroupMade,
)
from ctrace.inspector.facts.outcome import Failure, FailurePhase
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.ranks_of_job import Divergence
from ctrace.inspector.features.compare.world_job import first_difference_in_order
from ctrace.inspector.log.folders import LogFile

LOG = LogFile(Path("trace.log"), 0, 0)


def sent(
    line: int,
    op: str = "all_reduce",
    group: str = "0",
    size: int = 64,
    dtype: str = "float32",
    reduction: str = "sum",
) -> CollectiveCalled:
    user = CollectiveOrigin.USER
    return CollectiveCalled(op, group, 4, size, dtype, False, "/job/train.py", line, user, reduction=reduction)


def apart(
    *ranks: list[CollectiveCalled], groups: tuple[GroupMade, ...] = (), failed: int | None = None
) -> Divergence | None:
    runs = {}
    for rank, calls in enumerate(ranks):
        own = tuple(each for each in groups if not each.ranks or rank in each.ranks)
        failure = Failure(FailurePhase.RUN, "ValueError", "no") if rank == failed else None
        cluster = ClusterFacts(rank, len(ranks), calls=tuple(calls), groups=own)
        runs[rank] = (LOG, Session(cluster=cluster, failure=failure))
    return first_difference_in_order(runs)


def test_ranks_that_send_the_same_in_one_order_agree() -> None:
    assert apart([sent(3), sent(4, "broadcast")], [sent(3), sent(4, "broadcast")]) is None


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (sent(5, size=32), 3),
        (sent(5, dtype="bfloat16"), 3),
        (sent(5, reduction="max"), 3),
        (sent(5, "broadcast"), 3),
    ],
)
def test_a_collective_that_differs_is_named_on_each_rank(other: CollectiveCalled, line: int) -> None:
    found = apart([sent(2), sent(line)], [sent(2), sent(line)], [sent(2), other])
    assert found is not None
    assert (found.file, found.line, found.others) == ("/job/train.py", 5, (3,))
    assert found.values[0] == found.values[1] == "all_reduce(sum) of 64 bytes of float32 (train.py:3)"
    assert found.values[2].endswith("(train.py:5)")
    assert found.subject == "collective 2 of the group of ranks 0, 1, 2"


def test_a_lone_collective_of_the_same_size_is_found_where_the_lines_part() -> None:
    # Until its sequence ends, the other rank seems to call the same ones.
    found = apart([sent(2), sent(9), sent(4), sent(5)], [sent(2), sent(4), sent(5)])
    assert found is not None
    assert (found.line, found.others) == (9, (4,))
    assert found.subject.startswith("collective 2 ")


def test_a_rank_whose_inputs_end_under_join_sends_what_its_peers_decide() -> None:
    joined = replace(sent(1), is_joined=True)
    assert apart([sent(2), joined, sent(9)], [sent(2), sent(2), sent(3), joined, sent(9)]) is None
    assert apart([sent(2), joined], [sent(5, "broadcast"), joined]) is not None


def test_another_group_is_a_collective_that_its_ranks_wait_for() -> None:
    groups = (GroupMade("3", (0, 1)), GroupMade("4", (1, 2)))
    found = apart([sent(2, group="3")], [sent(7, group="4")], [sent(2, group="4")], groups=groups)
    assert found is not None
    assert found.values == {0: "all_reduce(sum) of 64 bytes of float32 (train.py:2)", 1: "nothing more"}


def test_groups_of_their_own_and_their_names_do_not_count() -> None:
    groups = (GroupMade("3", (0, 1)), GroupMade("5", (2, 3)))
    one, other = [sent(2, group="3")], [sent(2, group="5"), sent(9, group="5")]
    assert apart(one, one, other, other, groups=groups) is None


def test_ranks_may_exchange_parts_of_any_size() -> None:
    calls = [[sent(2, "all_to_all_single", size=size, reduction="")] for size in (8, 24)]
    assert apart(*calls) is None


def test_what_follows_a_failure_is_not_known() -> None:
    assert apart([sent(2), sent(3)], [sent(2)], failed=1) is None
    assert apart([sent(2), sent(3)], [sent(2)]) is not None


def test_what_follows_a_graph_that_is_not_in_the_log_is_not_known(tmp_path: Path) -> None:
    log = tmp_path / "trace.log"
    log.write_text("")
    of_graph = GraphCalled(graph="0/0", is_backward=False)
    runs = {}
    for rank, calls in enumerate(((sent(2), of_graph, sent(3)), (sent(2), of_graph))):
        runs[rank] = (LogFile(log, rank, 0), Session(cluster=ClusterFacts(rank, 2, calls=calls)))
    assert first_difference_in_order(runs) is None
