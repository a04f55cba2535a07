"""From log entries to the kernels that were built."""

import json
from typing import Any

from ctrace.inspector.facts.built import Ir
from ctrace.inspector.facts.session import Session
from tests.support.helpers import Log

PLAIN = {
    "stage": "forward", "kernel": "k0", "hash": "aa", "warps": 4, "stages": 1, "blocks": {}, "registers": 32, "spills": 0,
    "shared": 0, "seconds": [{"stage": "ttir", "seconds": 0.25}, {"stage": "ptx", "seconds": 0.5}], "chosen": True,
}  # fmt: skip
TIMED = {"stage": "forward", "kernel": "k0", "launch": 0, "seconds": 1e-5, "launches": 50, "why": ""}


def session(*entries: tuple[str, dict[str, Any]]) -> Session:
    log = Log().started().compiled("0/0")
    for name, data in entries:
        log = log.artifact(f"ctrace_{name}", json.dumps(data), at="0/0")
    made = log.ended().session()
    assert not made.problems
    return made


def test_one_configuration_is_the_one_that_is_launched() -> None:
    code = {"hash": "aa", "texts": {"ptx": "ret;"}, "packed": {"llir": "eJw="}}
    (built,) = session(("built", PLAIN), ("built_code", code)).built
    assert (built.graph, built.stage, built.kernel, built.chosen) == ("0/0", "forward", "k0", True)
    assert (built.registers, list(built.seconds)) == (32, ["ttir", "ptx"])
    assert built.ir == {"ptx": Ir("ret;"), "llir": Ir("eJw=", packed=True)}


def test_of_several_the_log_says_which() -> None:
    first, second = PLAIN | {"chosen": False}, PLAIN | {"chosen": False, "hash": "bb"}
    chosen = {"stage": "forward", "kernel": "k0", "hash": "bb"}
    assert [each.chosen for each in session(("built", first), ("built", second)).built] == [False, False]
    built = session(("built", first), ("built", second), ("built_chosen", chosen)).built
    assert [each.chosen for each in built] == [False, True]


def test_the_same_kernel_in_two_parts_shares_its_code() -> None:
    code = {"hash": "aa", "texts": {"ptx": "ret;"}, "packed": {}}
    built = session(("built", PLAIN), ("built_code", code), ("built", PLAIN | {"stage": "backward"})).built
    assert [(each.stage, each.chosen, list(each.ir)) for each in built] == [
        ("forward", True, ["ptx"]), ("backward", True, ["ptx"]),
    ]  # fmt: skip


def test_a_configuration_found_later_replaces_what_was_alone() -> None:
    later = PLAIN | {"hash": "bb", "chosen": False}
    chosen = {"stage": "forward", "kernel": "k0", "hash": "bb"}
    built = session(("built", PLAIN), ("built", later), ("built_chosen", chosen)).built
    assert [(each.hash, each.chosen) for each in built] == [("aa", False), ("bb", True)]


def test_of_a_launch_the_last_time_counts() -> None:
    made = session(
        ("launch_timed", TIMED), ("launch_timed", TIMED | {"seconds": 2e-5}), ("launch_timed", TIMED | {"launch": 1})
    )
    assert [(each.launch, each.seconds) for each in made.timed] == [(0, 2e-5), (1, 1e-5)]


def test_an_op_has_the_name_that_its_kernel_has() -> None:
    kernels: list[dict[str, Any]] = [
        {"stage": "forward", "name": name, "language": "external", "ops": [], "stacks": []}
        for name in ("aten.a.out", "torch.ops.aten.b")
    ]
    launches = [TIMED | {"kernel": name} for name in ("torch.ops.aten.a.out", "torch.ops.aten.b", "torch.ops.aten.c")]
    made = session(*(("kernel", each) for each in kernels), *(("launch_timed", each) for each in launches))
    assert [each.kernel for each in made.timed] == ["aten.a.out", "torch.ops.aten.b", "torch.ops.aten.c"]


def test_old_logs_have_none() -> None:
    made = session()
    assert (made.built, made.timed, made.gpu) == ((), (), None)
