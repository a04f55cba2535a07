"""`ctrace ranks` on screen, on recorded jobs."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.features.compare.rank_summary import Apart, Digest
from ctrace.inspector.features.compare.ranks_of_job import CompiledOnRanks, Divergence, Job, read_job
from ctrace.reports.terminal.ranks_screen import ranks_screen, where_they_differ
from ctrace.reports.wording.ranks_wording import ranks_text
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.places import DATA
from tests.support.poison import UNSEEN


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", ["ddp", "shape", "order", "recompile", "killed", "environment"])
def test_screen(case: str, width: int) -> None:
    job = replace(read_job(DATA / "ranks" / case), seconds={0: 2.0, 1: 2.5})
    assert_golden(f"ranks-{case}-{width}.txt", drawn(ranks_screen(job, width, all_of_it=False), width))


def many() -> Job:
    """Return a job of 1,024 ranks: one has no log, one is cut off, every eighth one compiled another graph."""
    odd = tuple(range(0, 1024, 8))
    usual = tuple(rank for rank in range(1024) if rank not in odd and rank != 77)
    one, other = (Digest("0/0", "forward", "/job/train.py", 9, {"graph": digest}) for digest in "ab")
    at = Divergence(
        "0/0",
        "forward",
        "/job/train.py",
        9,
        Apart.GRAPH,
        "node",
        dict.fromkeys(usual, "relu(x)") | dict.fromkeys(odd, "sin(x)"),
    )
    compilations = tuple(
        CompiledOnRanks(f"{number}/0", "forward", "/job/train.py", 9, (one, one if number else other))
        for number in range(30)
    )
    seconds = dict.fromkeys((*usual, *odd), 2.0) | {5: 9.0}
    ranks = tuple(sorted((*usual, *odd)))
    return Job(ranks, (range(77, 78),), {3: "the log is empty"}, compilations, (usual, odd), seconds, at)


@pytest.mark.parametrize("width", WIDTHS)
def test_screen_of_many_ranks(width: int) -> None:
    assert_golden(f"ranks-many-{width}.txt", drawn(ranks_screen(many(), width, all_of_it=False), width))


def test_long_values_are_shown_where_they_differ() -> None:
    state = f"GLOBAL_STATE: {'x' * 400}"
    found = where_they_differ([f'{state},"grad_mode":false', f'{state},"grad_mode":true'])
    assert [each[0] for each in found] == ["…", "…"]
    assert all(len(each) < 100 for each in found)
    assert found[0].endswith('"grad_mode":false')
    for values in (["relu(x)", "sin(x)"], [state], [f"a{state}", f"b{state}"]):
        assert where_they_differ(values) == values


def test_foreign_text_cannot_control_the_terminal() -> None:
    one = Digest("0/0", UNSEEN, UNSEEN, 1)
    job = Job(
        (0, 1),
        (),
        {0: UNSEEN},
        (CompiledOnRanks("0/0", UNSEEN, UNSEEN, 1, (one, None)),),
        ((0,), (1,)),
        {0: 1.0, 1: 1.0},
        Divergence("0/0", UNSEEN, UNSEEN, 1, Apart.GUARD, UNSEEN, {0: UNSEEN, 1: "x"}),
        (UNSEEN,),
        (UNSEEN,),
    )
    shown = drawn(ranks_screen(job, 80, all_of_it=True), 80)
    assert not any(letter in shown for letter in UNSEEN if not letter.isprintable())


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((3,), "rank 3"), ((0, 1, 2), "ranks 0-2"), ((0, 2), "ranks 0, 2"), ((5, 1, 2, 3), "ranks 1-3, 5")],
)
def test_ranks_are_written_as_ranges(ranks: tuple[int, ...], text: str) -> None:
    assert ranks_text(ranks) == text
