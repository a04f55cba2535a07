"""What a record says about a compilation, without what differs between healthy ranks."""

import json

import pytest

from ctrace.inspector.features.compare.rank_summary import Apart
from ctrace.inspector.features.compare.ranks_of_job import first_difference, first_lowered_difference
from ctrace.inspector.features.compare.record_content import RankItem, communicated, items_of
from ctrace.inspector.log.headers import Context
from ctrace.inspector.log.reader import LogEntry

GRAPH = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 8][8, 1]{device}", L_self_modules_fc_parameters_bias_: "f32[8][1]{device}"):
        l_x_ = L_x_

        # File: /job/train.py:7 in forward, code: y = x.sum()
        y: "f32[][]{device}" = l_x_.sum();  l_x_ = None
        a: "f32[][]{device}" = torch.ops._c10d_functional.all_reduce(y, 'sum', '{group}');  y = None
        w: "f32[][]{device}" = torch.ops._c10d_functional.wait_tensor(a);  a = None
        return (w,)
"""


def found(kind: str, payload: str) -> dict[str, list[RankItem]]:
    return dict(items_of(LogEntry(1, kind, {}, Context(), payload)))


def graph(device: str = "cpu", group: str = "0", text: str = GRAPH) -> dict[str, list[RankItem]]:
    return found("dynamo_output_graph", text.format(device=device, group=group))


def same(items: list[RankItem]) -> list[tuple[str, str]]:
    return [(item.key, item.same) for item in items]


def test_graph_has_inputs_nodes_and_collectives():
    each = graph()
    assert [(item.key, item.text) for item in each["input"]] == [
        ("self.fc.bias", "f32[8][1]cpu"),
        ("x", "f32[4, 8][8, 1]cpu"),
    ]
    assert [item.text for item in each["collective"]] == ["all_reduce(y, 'sum', '0')"]
    assert [(item.file, item.line) for item in each["graph"]][:1] == [("/job/train.py", 7)]
    assert each["graph"][0].text == "y = l_x_.sum()"


@pytest.mark.parametrize(("device", "group"), [("cuda:0", "0"), ("cuda:1", "3"), ("cuda:7", "0")])
def test_index_of_a_device_and_name_of_a_group_do_not_count(device: str, group: str):
    usual, other = graph("cuda:0", "0"), graph(device, group)
    assert {kind: same(items) for kind, items in usual.items()} == {kind: same(items) for kind, items in other.items()}


def test_other_device_counts():
    assert same(graph("cuda:0")["input"]) != same(graph("cpu")["input"])


def test_two_groups_keep_their_order():
    line = "        a: \"f32[][]cpu\" = torch.ops._c10d_functional.all_reduce(y, 'sum', '{group}');  y = None\n"
    second = line.replace("{group}", "9")
    twice = GRAPH.replace(line.replace("cpu", "{device}"), line.replace("cpu", "{device}") + second)
    one, other = graph(group="4", text=twice)["collective"], graph(group="9", text=twice)["collective"]
    assert same(one) != same(other), "one rank calls two groups, the other calls one group twice"


def test_guards_are_compared_without_comments_ids_and_times():
    text = "+- ID_MATCH: ___check_obj_id(G['f'], {id}), type=<class 'f'>  # {comment}\nGuard latency = {time} us\n"
    one, other = (
        found("dynamo_cpp_guards_str", text.format(id=number, comment=number, time=number))["guard"]
        for number in (140187022180192, 140662932583616)
    )
    assert same(one) == same(other)
    assert len(one) == 1


def test_tensors_that_guards_describe_are_inputs():
    check = (
        "TENSOR_MATCH: check_tensor(L['args'][0], Tensor, DispatchKeySet(CPU), torch.float32, device={}, size=[4, 8])"
    )
    one, other = (found("dynamo_cpp_guards_str", f"| +- {check.format(device)}  # f(x)") for device in (0, 1))
    assert [(item.key, item.text) for item in one["input"]] == [
        ("args[0], as guarded", "torch.float32, device=0, size=[4, 8]")
    ]
    assert same(one["input"]) == same(other["input"])
    assert "input" not in found("dynamo_cpp_guards_str", "| +- GLOBAL_STATE: ___check_global_state()")


def test_numbers_in_guards_count():
    one, other = (
        found("dynamo_cpp_guards_str", f"+- X: L['x'] == {value}")["guard"] for value in ("0.12345678", "0.123")
    )
    assert same(one) != same(other)


def test_schedule_of_collectives_is_compared_in_order():
    ops = [
        "torch.ops._c10d_functional.all_reduce_.default",
        "torch.ops._c10d_functional.all_gather_into_tensor.default",
    ]
    kind = "artifact:inductor_collective_schedule"
    one, other = (
        {kind: [communicated(LogEntry(1, kind, {}, Context(), json.dumps(each))) or []]} for each in (ops, ops[::-1])
    )
    source, first, second = first_lowered_difference(one, other) or ("", None, None)
    assert source == kind
    assert first is not None
    assert second is not None
    assert (first.key, first.text, second.text) == ("collective 1 of Inductor's schedule", ops[0], ops[1])


@pytest.mark.parametrize("payload", ["", "{", "[[", "null", "3", '{"components": 3}', '{"components": ["x"]}'])
@pytest.mark.parametrize("kind", ["artifact:inductor_collective_schedule", "artifact:fx_graph_cache_miss"])
def test_damaged_payloads_have_no_items(kind: str, payload: str):
    assert communicated(LogEntry(1, kind, {}, Context(), payload)) is None
    assert not [item for items in found(kind, payload).values() for item in items if not item.text]


def test_what_torch_chose_to_save_is_compared_without_the_rank_own_nodes():
    text = "picked_rank_idx={}, saved_nodes of current rank={{'mm_{}': 128}}"
    one, other, third = (
        found("artifact:aot_joint_graph_sync_decision_cross_ranks", text.format(*each))["collective"]
        for each in ((0, 1), (0, 2), (1, 1))
    )
    assert same(one) == same(other)
    assert same(one) != same(third)


def test_parts_of_a_cache_key_are_compared_by_hash_unless_they_name_a_device():
    def parts(*components: str) -> list[tuple[str, str]]:
        return same(found("artifact:fx_graph_cache_miss", json.dumps({"components": components}))["cache_key"])

    assert parts("[aa] config[x]: True") != parts("[bb] config[x]: True"), "the hash sees more than the text"
    assert parts("[aa] inputs[0]: device='cuda:0'") == parts("[bb] inputs[0]: device='cuda:1'")


def test_lone_items_are_the_last_to_be_named():
    shared, lone = RankItem("x", "f32[4]", "f32[4]"), RankItem("y", "f32[1]", "f32[1]")
    wider = RankItem("x", "f32[6]", "f32[6]")
    assert first_difference([lone, shared], [wider], Apart.INPUT) == (shared, wider)
    assert first_difference([shared], [lone, shared], Apart.INPUT) == (None, lone)
    assert first_difference([shared], [shared], Apart.INPUT) == (None, None)
