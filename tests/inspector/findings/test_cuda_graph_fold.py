"""The outcome of CUDA graphs, from the log's events."""

from ctrace.inspector.facts.cuda_graphs import CudaGraph, CudaGraphStatus
from ctrace.inspector.findings.cuda_graph_fold import cuda_graphs_of
from ctrace.inspector.findings.cuda_graph_view import outlook
from ctrace.inspector.log.collected_log import CollectedLog
from tests.support.helpers import decoded

MUTATED = (
    'skipping cudagraphs due to mutated inputs (1 instances). Found from : \n   File "/home/user/model.py", line 7, '
    "in forward\n    state.add_(y)\n"
)


def folded(*payloads: dict[str, object], prefixes: dict[str, str] | None = None) -> tuple[CudaGraph, ...]:
    raw = CollectedLog(prefixes=prefixes or {})
    for payload in payloads:
        at = str(payload.pop("id", "0/0"))
        raw.cuda_graphs.append(decoded("cuda_graph", {"stage": "inference", **payload}, at))
    return cuda_graphs_of(raw)


def checked(*reasons: str, offenders: tuple[dict[str, str], ...] = ()) -> dict[str, object]:
    return {"what": "checked", "reasons": list(reasons), "offenders": list(offenders)}


def test_a_part_that_nothing_ran_is_unknown():
    (found,) = folded(checked())
    assert (found.status, found.recordings, found.reasons) == (CudaGraphStatus.UNKNOWN, None, ())


def test_a_recorded_part_counts_its_recordings_and_sizes():
    recorded: list[dict[str, object]] = [
        {"what": "recorded", "sizes": sizes} for sizes in ("[8, 4]", "[16, 4]", "[8, 4]")
    ]
    (found,) = folded(checked(), {"what": "called"}, *recorded)
    assert (found.status, found.recordings, found.inputs) == (CudaGraphStatus.RECORDED, 3, ("[8, 4]", "[16, 4]"))


MOVED = (
    "static input data pointer changed.\n"
    "input name: primals_1. data pointer changed from 140 to 150. input stack trace:   "
    'File "/home/user/model.py", line 5, in forward\n    return self.a(x)\n\n'
    "input name: primals_2. data pointer changed from None to 151. input stack trace:   "
    'File "/home/user/model.py", line 9, in forward\n    return self.b(x)\n\n'
)


def test_a_recording_made_again_says_which_inputs_moved():
    recorded: list[dict[str, object]] = [
        {"what": "recorded", "sizes": "[8]", "why": why} for why in ("", MOVED, MOVED, "expected dead indices")
    ]
    (found,) = folded(checked(), *recorded)
    assert [(each.text, each.line) for each in found.again] == [
        ("static input data pointer changed: primals_1, primals_2", 5),
        ("expected dead indices", None),
    ]


def test_times_and_the_pool_come_from_the_recordings():
    (found,) = folded(
        checked() | {"limits": {"cudagraph_dynamic_shape_warn_limit": 8}},
        {"what": "recorded", "sizes": "[8]", "pool_bytes": 100, "untimed": "it changes its inputs"},
        {"what": "recorded", "sizes": "[9]", "pool_bytes": 200, "replay": 1e-5, "launched": 4e-5},
    )
    assert (found.pool_bytes, found.replay, found.launched, found.untimed) == (200, 1e-5, 4e-5, "")
    assert found.limits == {"cudagraph_dynamic_shape_warn_limit": 8}


def test_a_recording_that_cannot_be_timed_says_why():
    (found,) = folded(checked(), {"what": "recorded", "sizes": "[8]", "untimed": "it changes its inputs"})
    assert (found.replay, found.untimed) == (None, "it changes its inputs")


def test_a_called_part_that_was_not_recorded_has_no_recordings():
    (found,) = folded(checked(), {"what": "called"})
    assert (found.status, found.recordings) == (CudaGraphStatus.UNKNOWN, 0)


def test_a_skip_while_running_has_the_users_line():
    (found,) = folded(checked(), {"what": "called"}, {"what": "skipped", "reason": MUTATED})
    assert found.status is CudaGraphStatus.SKIPPED
    assert [(each.text, each.file, each.line) for each in found.reasons] == [
        ("mutated inputs (1 instances)", "/home/user/model.py", 7)
    ]


UNSAFE = (
    'disabling cudagraphs due to incompatible op aten.nonzero.default Found from   File "/home/user/model.py", line 4, '
    "in f\n    return x.nonzero()"
)


def test_a_reason_without_a_colon_before_its_stack_loses_the_stack():
    (found,) = folded(checked(UNSAFE))
    assert [(each.text, each.line) for each in found.reasons] == [("incompatible op aten.nonzero.default", 4)]


def test_torchs_prefix_may_come_twice():
    (found,) = folded(checked("skipping cudagraphs due to skipping cudagraphs due to cpu device (arg1_1)"))
    assert found.reasons[0].text == "cpu device (arg1_1)"


def test_every_reason_is_kept_once():
    (found,) = folded(checked("a", "b"), {"what": "skipped", "reason": "a"}, {"what": "skipped", "reason": "c"})
    assert [each.text for each in found.reasons] == ["a", "b", "c"]


def test_a_reason_that_is_only_a_prefix_keeps_its_text():
    (found,) = folded(checked("skipping cudagraphs due to "))
    assert found.reasons[0].text == "skipping cudagraphs due to "


def test_offenders_have_lines_of_the_user_not_of_torch():
    stack = '  File "/torch/nn/linear.py", line 1, in forward\n    a\n  File "/home/user/model.py", line 3, in forward\n    b'
    offenders = ({"text": "x is on the CPU", "stack": stack}, {"text": "y is on the CPU", "stack": ""})
    (found,) = folded(checked(offenders=offenders), prefixes={"/torch": "torch"})
    assert [(each.text, each.line) for each in found.found] == [("x is on the CPU", 3), ("y is on the CPU", None)]


def test_parts_are_kept_apart():
    found = folded(checked(), {**checked("no"), "id": "1/0"}, {**checked(), "stage": "backward"})
    assert [(each.graph, str(each.stage), str(each.status)) for each in found] == [
        ("0/0", "inference", "unknown"),
        ("1/0", "inference", "skipped"),
        ("0/0", "backward", "unknown"),
    ]


def test_times_are_measured_after_the_program():
    (found,) = folded(
        checked(),
        {"what": "recorded", "sizes": "[8]", "piece": 0},
        {"what": "timed", "sizes": "[8]", "piece": 0, "replay": 1e-5, "launched": 4e-5},
    )
    assert (found.replay, found.launched, found.untimed) == (1e-5, 4e-5, "")


def test_a_recording_that_was_never_timed_says_so():
    (found,) = folded(checked(), {"what": "recorded", "sizes": "[8]", "piece": 0})
    assert (found.replay, found.untimed) == (None, "the program ended before it could be timed")
    (refused,) = folded(
        checked(), {"what": "recorded", "sizes": "[8]"}, {"what": "timed", "untimed": "the program failed"}
    )
    assert refused.untimed == "the program failed"


def test_a_part_that_waits_for_a_backward_is_not_recorded():
    (found,) = folded(
        checked(),
        {"what": "called"},
        {"what": "warmed_up", "why": ""},
        {"what": "warmed_up", "why": "pending, uninvoked backwards"},
    )
    assert (found.status, found.recordings) == (CudaGraphStatus.UNKNOWN, 0)
    assert (found.was_warmed_up, found.held_back) == (True, ("pending, uninvoked backwards",))


def partitioned(graphs: int, *reasons: str) -> dict[str, object]:
    offender = {"text": "aten.mm: symbolic sizes", "stack": '  File "/home/user/model.py", line 3, in forward\n    b'}
    return {"what": "partitioned", "graphs": graphs, "reasons": list(reasons), "offenders": [offender]}


def test_a_part_of_which_nothing_is_left_is_skipped():
    (found,) = folded(checked(), partitioned(0, "symbolic sizes", "cpu ops"))
    assert found.status is CudaGraphStatus.SKIPPED
    assert [each.text for each in found.reasons] == ["nothing of it is left for a CUDA graph: symbolic sizes, cpu ops"]
    assert [(each.text, each.line) for each in found.found] == [("aten.mm: symbolic sizes", 3)]
    assert found.pieces == 0


def test_the_pieces_of_a_part_are_not_sizes_of_it():
    (found,) = folded(
        checked(),
        partitioned(2),
        *({"what": "recorded", "sizes": sizes, "piece": piece} for sizes, piece in (("[8]", 0), ("[4]", 1))),
    )
    assert (found.recordings, found.pieces, found.inputs, found.repeats) == (2, 2, ("[8]",), 1)
    assert outlook(found) == ""
    (again,) = folded(
        checked(),
        partitioned(2),
        *(
            {"what": "recorded", "sizes": sizes, "piece": piece}
            for sizes, piece in (("[8]", 0), ("[4]", 1), ("[9]", 1))
        ),
    )
    assert (again.recordings, again.inputs, again.repeats) == (3, ("[4]", "[9]"), 2)
    assert outlook(again) == "recorded once for each of 2 sets of input sizes"


def test_a_skip_of_the_forward_skips_the_backward():
    found = folded(checked("cpu device (arg1_1)") | {"stage": "forward"}, checked() | {"stage": "backward"})
    assert [each.status for each in found] == [CudaGraphStatus.SKIPPED] * 2
    assert (
        found[1].reasons[0].text == "torch skipped the CUDA graph of the forward, and then skips that of the backward"
    )
    while_running = folded(
        checked() | {"stage": "forward"},
        {"what": "skipped", "reason": "mutated inputs", "stage": "forward"},
        checked() | {"stage": "backward"},
    )
    assert [each.status for each in while_running] == [CudaGraphStatus.SKIPPED, CudaGraphStatus.UNKNOWN]


def test_a_partition_alone_is_no_cuda_graph():
    assert folded(partitioned(0, "partition includes all ops when cudagraphs is disabled")) == ()
