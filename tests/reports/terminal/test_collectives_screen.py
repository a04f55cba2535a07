"""`ctrace collectives` on screen: bytes, lines and numbers are whole on a narrow one."""

import pytest

from ctrace.inspector.facts.cluster_facts import CollectiveOrigin
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.cluster.collective_view import Collective, CollectivesDocument
from ctrace.reports.terminal.collectives_screen import collectives_screen
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.poison import UNSEEN


def called(op: str, group: str, file: str | None, line: int | None, **more: object) -> Collective:
    found = {"part": "forward", "dtype": "float32", "bytes": 2 << 20, "origin": CollectiveOrigin.DTENSOR, **more}
    return Collective(op, group, group_size=128, file=file, line=line, **found)  # type: ignore[arg-type]


def document(*collectives: Collective) -> CollectivesDocument:
    return CollectivesDocument(
        run=Session().run,
        rank=7,
        world=1024,
        collectives=collectives,
        totals={},
        findings=(),
        cut_after=None,
        notes=(),
    )


FSDP = {"origin": CollectiveOrigin.FSDP, "bucket": ("0.up.weight", "0.down.weight")}
GRAPH = {"compiled": True, "graph": "1/0", "starts_at": "node 12 of 60", "between": 0, "part": "backward"}
MANY = (
    *[called("all_gather_into_tensor_coalesced", "data_parallel", None, None, **FSDP)] * 12,
    called("all_reduce", "tp", "/job/a_file_with_quite_a_long_name.py", 1234, **GRAPH),
    called("scatter", "tp", "/job/train.py", 7, change="(Replicate()) -> (Shard(dim=0))", bytes=None),
)


@pytest.mark.parametrize("width", WIDTHS)
def test_screen(width: int) -> None:
    shown = drawn(collectives_screen(document(*MANY), width, all_of_it=False), width)
    assert_golden(f"collectives-{width}.txt", shown)
    for text in ("2.0 MiB", "× 12", ":1234", "train.py:7"):
        assert text in shown
    assert max(map(len, shown.splitlines())) <= width


def test_foreign_text_cannot_control_the_terminal() -> None:
    shown = drawn(collectives_screen(document(called(UNSEEN, UNSEEN, UNSEEN, 1)), 80, all_of_it=True), 80)
    assert not any(letter in shown for letter in UNSEEN if not letter.isprintable())
