"""Records of torch that ctrace shows as torch wrote them: `ctrace explain --json` has their texts."""

RECORDS = {
    "inductor_spmd_graph_mismatch": "torch found that ranks compile different graphs",
    "aot_joint_graph_sync_decision_cross_ranks": "ranks agreed on what to save for the backward",
    "compiler_collective": "ranks exchanged what they know of dynamic sizes",
    "inductor_collective_schedule": "the order of collectives",
    "inductor_fx_passes_overlap_bucketing": "how collectives are bucketed to overlap with compute",
    "inductor_overlap_cyclic_extra_deps": "dependencies that bucketing of collectives cannot add",
    "min_cut_information": "what the partitioner saves for the backward, and what it recomputes",
    "dynamo_side_effects": "side effects that Dynamo replays after the graph",
    "dynamo_error": "an error inside Dynamo",
    "get_local_code_state": "sizes known from earlier runs (PGO), read from disk",
    "get_remote_code_state": "sizes known from earlier runs (PGO), read from a remote cache",
    "get_extra_remote_code_state": "sizes known from other jobs (PGO)",
    "put_local_code_state": "sizes for later runs (PGO), written to disk",
    "put_remote_code_state": "sizes for later runs (PGO), written to a remote cache",
    "compile_worker_status": "the processes that compile kernels",
    "compile_worker_sidecar_death": "a process that compiles kernels died",
    "dynamo_cache_bypass": "precompiled code that torch cannot cache",
    "dynamo_cache_exception": "an error of torch's cache of precompiled code",
    "aotautograd_cache_pickle_failure": "a cache key that torch cannot compute",
}
"""Names of artifacts (torch 2.11 to 2.15), each with what it is about."""
