"""Records of torch that no other view reads: shown as they are, or at least counted by name."""

from pathlib import Path

import pytest

from ctrace.inspector.facts.run_events import Ignored, RecordSeen, UnknownEvent
from ctrace.inspector.log.dispatch import RECORDS, decode
from ctrace.inspector.log.headers import Context
from ctrace.inspector.log.reader import LogEntry
from ctrace.inspector.runs import load as loading
from ctrace.inspector.runs.load import load_log
from tests.support.explained import explain_json
from tests.support.helpers import Log

WRITTEN = [
    "after_activation_quantization_bwd_aten_pass",
    "after_activation_quantization_fwd_aten_pass",
    "after_joint_graph",
    "after_pre_grad_graph",
    "aot_forward_graph_fw_metadata",
    "aot_forward_graph_fw_subclass_metadata",
    "aot_inference_graph_after_hop_passes",
    "aot_joint_graph_sync_decision_cross_ranks",
    "aot_saved_tensors_hooks_graphs",
    "aotautograd_cache_pickle_failure",
    "before_activation_quantization_bwd_aten_pass",
    "before_activation_quantization_fwd_aten_pass",
    "before_joint_graph",
    "before_post_grad_graph",
    "before_pre_grad_graph",
    "compile_worker_sidecar_death",
    "compile_worker_status",
    "compiled_autograd_compile_reasons",
    "compiled_autograd_graph_pre_reordering",
    "compiler_collective",
    "dynamo_cache_bypass",
    "dynamo_cache_entries",
    "dynamo_cache_exception",
    "dynamo_error",
    "dynamo_graph_break_reason",
    "dynamo_side_effects",
    "eager_compile_backwards_failure",
    "fx_bucketing_passes_all_gather_buckets",
    "fx_bucketing_passes_reduce_scatter_buckets",
    "fx_compute_nodes_runtime_estimation",
    "fx_graph_bundled_cache_hit",
    "fx_graph_cache_hit",
    "fx_graph_cache_miss",
    "fx_graph_runnable",
    "fx_interpreter_error",
    "fx_net_acc_splitter_finder_events",
    "get_extra_remote_code_state",
    "get_local_code_state",
    "get_remote_code_state",
    "graph_execution",
    "inductor_autotune_at_compile_time_code",
    "inductor_collective_schedule",
    "inductor_fx_passes_overlap_bucketing",
    "inductor_overlap_cyclic_extra_deps",
    "inductor_post_grad_graph",
    "inductor_provenance_tracking_kernel_stack_traces",
    "inductor_provenance_tracking_node_mappings",
    "inductor_runtime_and_tensor_meta",
    "inductor_spmd_graph_mismatch",
    "invoke_subgraph_backward_duplicate",
    "make_fx_fail_partial",
    "min_cut_failed_edge_list",
    "min_cut_failed_fx_graph",
    "min_cut_failed_svg",
    "min_cut_information",
    "overlap_scheduling_graph_after",
    "overlap_scheduling_graph_before",
    "pge_profile_vs_analytical",
    "post_decomp_comms",
    "pre_bucketing_collective_sizes",
    "pre_bucketing_collective_sizes_after",
    "pre_bucketing_fsdp_collectives",
    "pre_decomp_comms",
    "precompile_cache_bypass",
    "put_local_code_state",
    "put_remote_code_state",
    "recompile_reasons",
    "reorder_communication_preserving_peak_memory",
    "scheduler_nodes_before_comm_overlap",
    "sink_waits_iterative_info",
    "torch._functorch.config",
    "torch_version",
    "triton_kernel_info",
    "native_dsl_compile",
    "output_alias_wrapper",
    "mutation_epilogue",
    "runtime_wrapper_orchestration",
    "functionalized_rng_wrapper",
    "effect_tokens_wrapper",
    "dedup_wrapper",
    "synthetic_base_wrapper",
    "backward_prologue",
    "backward_epilogue",
    "compiled_function_forward",
    "compiled_function_backward",
    "compiled_fn_wrapper",
    "debug_assert_wrapper",
    "aot_autograd_runtime_wrappers",
]
"""The names of all artifacts that torch 2.11 to 2.15 writes, from its source."""


@pytest.mark.parametrize("name", WRITTEN)
def test_no_artifact_of_torch_is_unknown(name: str):
    entry = LogEntry(1, f"artifact:{name}", {"name": name}, Context(0, 0), '{"torch": "2.13.0"}')
    assert not isinstance(decode(entry), UnknownEvent)


@pytest.mark.parametrize("least", [1, 1 << 40])
def test_records_are_shown_as_they_are(tmp_path: Path, least: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loading, "_LARGE", least)
    log = Log().started()
    for name in RECORDS:
        log.artifact(name, f"text of\n{name}", at="0/0")
    (tmp_path / "a.log").write_text(log.text, encoding="utf-8")
    session = load_log(tmp_path / "a.log")
    assert [(each.name, each.compilation, each.text) for each in session.records] == [
        (name, "0/0", f"text of\n{name}") for name in RECORDS
    ]
    assert '"text of\\n' in explain_json(session)
    assert not session.unknown


def test_the_others_are_counted_by_name(tmp_path: Path):
    log = (
        Log().started().record("describe_source", {}).record("describe_source", {}).artifact("triton_kernel_info", "x")
    )
    log.artifact("torch_dynamo_resume_in_f_at_3_ORIGINAL_BYTECODE", "x").artifact("of_tomorrow", "x")
    (tmp_path / "a.log").write_text(log.text, encoding="utf-8")
    session = load_log(tmp_path / "a.log")
    assert session.not_shown == {
        "describe_source": 2, "artifact:triton_kernel_info": 1, "artifact:*_ORIGINAL_BYTECODE": 1,
    }  # fmt: skip
    assert session.unknown == {"artifact:of_tomorrow": 1}


def test_each_shown_record_is_decoded():
    for name in RECORDS:
        found = decode(LogEntry(1, f"artifact:{name}", {"name": name}, Context(), "text"))
        assert isinstance(found, RecordSeen)
        assert not isinstance(found, Ignored)
