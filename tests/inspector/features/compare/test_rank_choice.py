"""Which ranks of a virtual job are captured, and which follow them."""

from pathlib import Path

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.cluster_facts import ClusterFacts, MeshDim, MeshMade, StageMade, UnevenShard
from ctrace.inspector.features.compare.world_job import named_ranks, parting_line, rank_questions
from ctrace.inspector.findings.rank_classes import RankClasses, alike


def mesh(*sizes: int, names: tuple[str, ...]) -> MeshMade:
    world = 1
    for size in sizes:
        world *= size
    return MeshMade(sizes, names, (0,) * len(sizes), tuple(range(world)), (), "train.py", 1)


def test_first_middle_and_last_of_each_dimension_stand_for_all() -> None:
    classes = RankClasses(1024, ClusterFacts(0, 1024, (mesh(128, 8, names=("dp", "tp")),)))
    assert classes.distinct == (0, 1, 7, 8, 9, 15, 1016, 1017, 1023)
    assert classes.representative(500) == 9
    assert classes.representative(503) == 15


@pytest.mark.parametrize(("rank", "others"), [(0, 0), (7, 0), (9, 126 * 6 - 1), (1, 5)])
def test_others_with_the_position_of_a_rank_are_counted(rank: int, others: int) -> None:
    assert alike(ClusterFacts(rank, 1024, (mesh(128, 8, names=("dp", "tp")),))) == others


def test_others_are_not_counted_in_a_huge_world() -> None:
    assert alike(ClusterFacts(0, 1_000_000)) is None


def test_without_a_mesh_the_world_is_one_dimension() -> None:
    assert RankClasses(16, ClusterFacts(0, 16)).distinct == (0, 1, 15)
    assert RankClasses(1, ClusterFacts(0, 1)).distinct == (0,)


def test_the_mesh_of_the_command_line_replaces_the_programs() -> None:
    cluster = ClusterFacts(0, 16, (mesh(16, names=("dp",)),))
    assert RankClasses(16, cluster, (MeshDim("dp", 2), MeshDim("tp", 8))).distinct == (0, 1, 7, 8, 9, 15)


def test_each_stage_of_a_pipeline_is_captured() -> None:
    classes = RankClasses(8, ClusterFacts(0, 8, (mesh(4, 2, names=("pp", "dp")),)))
    assert classes.distinct == tuple(range(8))
    assert [classes.stage_of(rank) for rank in (0, 3, 7)] == [(0,), (1,), (3,)]


def test_a_dimension_whose_group_has_stages_is_a_pipeline_whatever_its_name() -> None:
    made = MeshMade((4, 2), ("a", "b"), (0, 0), tuple(range(8)), ("1", "2"), "train.py", 1)
    classes = RankClasses(8, ClusterFacts(0, 8, (made,), stages=(StageMade(0, 4, "1"),)))
    assert [classes.stage_of(rank) for rank in (0, 3, 7)] == [(0,), (1,), (3,)]
    whole = RankClasses(4, ClusterFacts(0, 4, stages=(StageMade(0, 4, "0"),)))
    assert whole.distinct == (0, 1, 2, 3)
    assert whole.stage_of(2) == (2,)


def test_each_size_of_an_uneven_shard_is_captured() -> None:
    """11 over 8 ranks: five have 2, the sixth has 1, the others nothing."""
    classes = RankClasses(8, ClusterFacts(0, 8, (mesh(8, names=("dp",)),), (UnevenShard(11, 8),)))
    assert classes.distinct == (0, 1, 5, 6, 7)


def test_a_rank_that_the_program_names_is_captured(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import torch.distributed as dist\n"
        "class Net:\n"
        "    def __init__(self, place):\n"
        "        self.place = place\n"
        "    def forward(self, x):\n"
        "        return -x if self.place == 37 else x\n"
        "net = Net(dist.get_rank())\n"
        "if len(net) == 51: pass\n"
    )
    found = rank_questions([program])
    assert found.places == ((str(program), 7),)
    assert found.named == (37,)
    assert 37 in RankClasses(64, ClusterFacts(0, 64), (), found.named).distinct


def test_ranks_are_numbers_and_ranges() -> None:
    assert named_ranks("0,7,10-12,7", 16) == (0, 7, 10, 11, 12)
    for text in ("", "x", "3-", "16", "2-16"):
        with pytest.raises(TargetError, match="--ranks"):
            named_ranks(text, 16)


def test_ranks_part_at_the_branch(tmp_path: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text("def f(x, rank):\n    x = x + 1\n    if rank == 2:\n        x = -x\n    return x * 2\n")
    assert parting_line(str(source), 4, (5,)) == 3
    assert parting_line(str(source), 2, (5,)) is None
    assert parting_line("gone.py", 2, (5,)) is None
