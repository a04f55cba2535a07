"""The world of --world N: its mesh, and what torchrun would tell a rank."""

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.cluster_facts import MeshDim
from ctrace.inspector.runs.virtual_world import check_world, parse_mesh, rank_environment


def test_a_mesh_has_named_sizes() -> None:
    assert parse_mesh("dp=128, tp=8") == (MeshDim("dp", 128), MeshDim("tp", 8))


@pytest.mark.parametrize("text", ["", "8", "dp", "dp=", "dp=0", "dp=x", "dp=2,dp=4", "dp=2,,tp=4"])
def test_anything_else_is_no_mesh(text: str) -> None:
    with pytest.raises(TargetError, match="--mesh"):
        parse_mesh(text)


@pytest.mark.parametrize(
    ("world", "mesh", "rank", "what"),
    [
        (8, "dp=2,tp=2", None, "2 x 2 is 4, and --world is 8"),
        (8, None, 8, "has ranks 0 to 7"),
        (None, "dp=2", None, "needs a world"),
        (None, None, 3, "needs a world"),
        (10**9, None, None, "more than"),
    ],
)
def test_what_does_not_fit_is_refused(world: int | None, mesh: str | None, rank: int | None, what: str) -> None:
    with pytest.raises(TargetError, match=what):
        check_world(world, mesh, rank)


def test_a_rank_gets_what_torchrun_sets() -> None:
    found = rank_environment(13, 20, {})
    assert {name: found[name] for name in ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")} == {
        "RANK": "13",
        "LOCAL_RANK": "5",
        "GROUP_RANK": "1",
        "WORLD_SIZE": "20",
        "LOCAL_WORLD_SIZE": "8",
    }
    assert rank_environment(17, 20, {})["LOCAL_WORLD_SIZE"] == "4"
    assert found["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in rank_environment(1, 2, {"OMP_NUM_THREADS": "4"})
