"""Any log results in a session; unreadable parts are reported as problems."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.errors import RunError
from ctrace.inspector.facts.session import Session, Verdict
from ctrace.inspector.findings.compile_time_view import compile_document
from ctrace.inspector.findings.guard_view import by_line, by_object, guarded, heads, tensor_guards
from ctrace.inspector.findings.kernels.built_view import text_of
from ctrace.inspector.findings.kernels.kernels_document import kernels_document
from ctrace.inspector.findings.recompiles.recompile_view import caches, groups
from ctrace.inspector.log.decode_compile_time import LOOKUPS
from ctrace.inspector.log.dispatch import _DECODERS, RECORDS, STAGES
from ctrace.inspector.session.build import build
from ctrace.reports.json.printer import render
from ctrace.reports.perfetto import render_perfetto
from ctrace.reports.terminal.compile_time_screen import compile_time_screen
from tests.support.explained import screen_of
from tests.support.golden import drawn
from tests.support.helpers import (
    GUARD_COST,
    HOME,
    MODEL,
    PROJECT,
    Log,
    any_json,
    fuzzing,
    parsed,
    stack_of,
    unmet,
    whole,
)
from tests.support.sampling import sampled

SIZE = "L['x'].size()[0]"
TREE = """\
+- RootGuardManager
| +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x'), type=<class 'int'>, tag_safe=(True, False)
| | +- EQUALS_MATCH: L['x'] == 3  # return x  # model.py:9 in forward
| +- LAMBDA_GUARD: L['x'] != 5
"""
LINES = [{"filename": 0, "line": 8, "name": "forward", "loc": "x = x + 1"}]
SPECIMENS: dict[str, Any] = {
    "artifact:ctrace_rank_began": {"rank": 1, "world": 8},
    "artifact:ctrace_mesh_made": {
        "shape": [4, 2], "names": ["dp", "tp"], "coordinate": [0, 1], "ranks": [0, 1, 2, 3, 4, 5, 6, 7],
        "groups": ["1", "2"], "file": "train.py", "line": 8,
    },
    "artifact:ctrace_group_made": {"name": "1", "ranks": [0, 2, 4, 6]},
    "artifact:ctrace_stage_made": {"index": 1, "stages": 4, "group": "1"},
    "artifact:ctrace_uneven_shard": {"size": 7, "parts": 4},
    "artifact:ctrace_collective_called": {
        "op": "all_gather_into_tensor", "group": "1", "group_size": 4, "bytes": 4096, "dtype": "float32",
        "is_backward": False, "file": "train.py", "line": 12, "origin": "fsdp", "bucket": ["up.weight"],
        "change": "(Shard(dim=0)) -> (Replicate())", "waited": "",
    },
    "artifact:ctrace_graph_called": {"is_backward": True},
    "artifact:ctrace_collectives_cut": {"most": 20000},
    "artifact:ctrace_kernel_call": {
        "stage": "forward", "name": "triton_poi_fused_add_0", "pointers": [["in_ptr0", "arg0_1", "*fp32"]],
        "sizes": [["ks0", "s0"]], "numels": [["xnumel", "8*s0"]],
        "buffers": [{
            "name": "arg0_1", "kind": "input", "node": "arg0_1", "dtype": "float32", "shape": ["s0", "8"],
            "stride": ["8", "1"], "device": "cuda:0", "mutates": "",
        }],
        "symbols": {"s0": 4}, "workspaces": 0,
    },
    "artifact:ctrace_cuda_graph": {
        "stage": "inference", "what": "checked", "reasons": ["cpu"], "offenders": [{"text": "x", "stack": "model.py:3"}],
    },
    "str": ["a.py", 7],
    "dynamo_start": {"stack": [{"filename": 0, "line": 8, "name": "forward"}]},
    "dynamo_output_graph": {"sizes": {"x": [4]}},
    "compilation_metrics": {
        "co_name": "forward", "co_filename": MODEL, "co_firstlineno": 8, "guard_count": 9, "graph_op_count": 2,
        "entire_frame_compile_time_s": 1.0, "backend_compile_time_s": 0.7, "inductor_compile_time_s": 0.4,
        "fail_type": "Unsupported", "fail_reason": "no such thing",
    },
    "bwd_compilation_metrics": {"backward_cumulative_compile_time_us": 3, "inductor_compile_time_s": 0.4},
    "artifact:ctrace_trial": {
        "trial": {"settings": [["capture_scalar_outputs", True]]},
        "counts": {"graphs": 1, "breaks": 0, "recompiles": 0, "coverage": 100.0}, "seconds": 2.5, "breaks": ["a.py:3"],
    },
    "artifact:ctrace_model_loaded": {
        "fake": True, "parameters": 8030261248, "parameter_bytes": 16060522496, "layers": 2, "layers_cut": 30,
    },
    "artifact:ctrace_assumed": {
        "file": "a.py", "line": 3, "column": 12, "expression": "x.sum() > 0", "value": "True", "origin": "user",
    },
    "artifact:ctrace_stopped": {
        "file": "a.py", "line": 3, "column": 12, "asked": "x.item()", "todo": "--assume a.py:3:12=VALUE",
    },
    "artifact:ctrace_accuracy": {
        "equal": False, "culprits": [{
            "kind": "kernel", "name": "cpp_fused_relu_0", "part": 0, "stage": "forward", "scenario": "base",
            "file": "a.py", "line": 3, "function": "forward", "ops": ["aten.relu"], "error": 1.0, "eager_error": 0.0,
            "against": "float64", "source": "x.relu()", "dtype": "float32", "step": 2,
        }],
        "first_nonfinite": {"file": "a.py", "line": 3, "op": "aten.log", "name": "k", "in_eager": True},
        "path": [{"name": "cpp_fused_relu_0", "line": "a.py:3", "error": 1.0}],
        "promises": {"run_to_run": True, "batch_invariant": None},
        "not_compared": [{"what": "k", "why": "it draws random numbers"}],
        "compared": 3, "kernels": 2, "graphs": 1, "scenarios": ["base"], "result": "wrong", "device": "cpu",
        "steps": [{
            "step": 1, "loss_eager": 1.0, "loss_compiled": 1.5, "parted": True, "parameter": "a.weight", "error": 1.0,
        }],
        "training": {"loss": "mean square", "optimizer": "AdamW", "changed_bit": "a.weight[0]", "parted_by": "compiler"},
    },
    "artifact:ctrace_memory": {
        "peak": {"bytes": 4096, "measured": False, "part": "backward", "at": "a.py:3"},
        "eager_peak": {"bytes": 8192, "measured": False, "part": "forward", "at": "a.py:3"},
        "alive": [{
            "bytes": 4096, "kind": "saved", "file": "a.py", "line": 3, "function": "forward", "shape": [4, 256],
            "dtype": "float32", "count": 1, "source": "x.relu()", "op": "aten.relu.default",
        }],
        "lines": [{"file": "a.py", "line": 3, "bytes": 4096, "eager_bytes": 8192}],
        "saved": [{
            "bytes": 4096, "file": "a.py", "line": 3, "name": "relu", "eager_saves": True, "recompute_flops": 1024.0,
        }],
        "timeline": [{"part": "forward", "at": "a.py:3", "bytes": 4096, "kinds": [{"kind": "saved", "bytes": 4096}]}],
        "growth": [{"call": 1, "bytes": 64}], "device": "cpu", "graphs": 2, "train": True,
    },
    "artifact:ctrace_inductor_guards": {"seen": True, "added": ["Eq(s0, 4)"]},
    "artifact:torch_version": {"pytorch_version": "2.13.0"},
    "artifact:recompile_reasons": ["0/0: L['n'] == 2"],
    "artifact:ctrace_start": {
        "schema": 1, "ctrace": "0.1.0", "python": "3.11.7", "triton": None, "cwd": PROJECT, "prefixes": {PROJECT: "user"},
        "home": HOME,
    },
    "artifact:ctrace_torch": {"torch": "2.13.0", "prefixes": {PROJECT: "user"}},
    "artifact:ctrace_mode": {"build": False},
    "artifact:ctrace_device": {"device": "cpu"},
    "artifact:ctrace_danger": {
        "scenario": "first", "call": 0, "kind": "hook", "subject": "model._forward_hooks[2]", "difference": "all of it",
        "was": "not set", "now": "f", "file": MODEL, "line": 3, "proven": True,
    },
    "artifact:ctrace_dangers_withdrawn": {},
    "artifact:ctrace_call": {"scenario": "base", "index": 0},
    "artifact:ctrace_unrolled": {
        "loops": [{"file": MODEL, "line": 9, "function": "forward", "times": 12, "ops": 84}],
    },
    "artifact:ctrace_parts": {
        "codes": [{"file": MODEL, "first": 3, "last": 9}],
        "parts": [
            {"path": "model", "kind": "Net", "code": 0, "parameters": 20},
            {"path": "model.net", "kind": "Net", "code": 0, "parameters": 16},
        ],
    },
    "artifact:ctrace_eager_call": {"ends": True},
    "artifact:ctrace_plan": {"scenarios": [{"name": "base", "kind": "base"}, {"name": "wide", "kind": "given"}]},
    "artifact:ctrace_files": {"files": {MODEL: "0" * 64, "size.txt": ""}},
    "artifact:ctrace_exited": {"how": "os._exit(0)", "file": MODEL, "line": 3},
    "artifact:ctrace_scenario": {
        "name": "base", "calls": 2, "kind": "provoked", "outcome": "not_taken", "message": "ValueError", "compared": 1,
        "not_compared": "it draws lots",
    },
    "artifact:ctrace_ops": {
        "scenario": "first", "eager": 5, "left": 3, "functions": [{"file": MODEL, "name": "f", "line": 8, "ops": 5}],
        "stacks": [{"frames": stack_of([(MODEL, 10, "forward")]), "ops": 3}],
    },
    "artifact:ctrace_frame": {
        "name": "helper", "qualname": "helper", "file": MODEL, "line": 31, "rule": "generator", "reason": None,
        "fullgraph": False, "stack": stack_of([(MODEL, 10, "forward"), (MODEL, 31, "helper")]),
    },
    "artifact:ctrace_listing": {"file": MODEL, "text": "def forward(x):\n    print(x)\n"},
    "artifact:ctrace_graph": {"backend": "eager", "ops": 3, "wraps": None},
    "artifact:ctrace_modules": {"traced": True, "modules": [{"path": "layers.0", "class": "Block", "nodes": ["a"]}]},
    "artifact:ctrace_bytecode": {
        "name": "forward", "qualname": "forward", "file": MODEL, "line": 8, "bytes_before": 48, "bytes_after": 99,
        "callers": stack_of([(MODEL, 50, "<module>")]),
    },
    "artifact:ctrace_pass": {
        "name": "pattern_matcher", "within": ["pass_pattern_0"], "subsystem": "joint_graph_passes", "stage": "joint",
        "before": 9, "after": 8, "created": [["a", "aten.add.Tensor"]], "erased": [["b", "aten.mul.Tensor"]],
        "created_ops": {"aten.add.Tensor": 1}, "erased_ops": {"aten.mul.Tensor": 2}, "rewired": 1, "moved": True,
        "retargeted": [["c", "aten.exp.default", "aten.exp_.default"]], "counters": {"pattern_matcher_count": 1},
        "matches": 1, "counted": 1,
        "patterns": [{"name": "p", "times": 1, "nodes": 2, "ops": ["aten.mul.Tensor"], "stacks": [f'File "{MODEL}", line 9']}],
    },
    "artifact:ctrace_attention": {
        "stage": "joint",
        "places": [{
            "call": None, "nodes": ["bmm"], "stacks": [f'File "{MODEL}", line 9'], "dtype": "float32", "device": "cpu",
            "fused": [], "matched": None, "counted": 0, "axis": -1,
            "why": {
                "code": "rank", "pattern": "_sfdp_pattern_1", "found": "a", "wanted": "b", "user": "c", "argument": "query",
                "rank": 3, "also": ["mask"], "stacks": [f'File "{MODEL}", line 9'],
            },
        }],
    },
    "artifact:ctrace_recompile": {
        "entries": [unmet("L['n'] == 2", lines=(9,), now="3"), {"id": "0/0", "unmet": [], "invalid": "gone"}],
        "closure": ["n"], "seconds": 0.5,
    },
    "artifact:ctrace_guards": {
        "stacks": [{"frames": stack_of([(MODEL, 9, "forward")])}], "lines": [0, -1],
        "left_out": [{"kind": "EMPTY_NN_MODULE_HOOKS_DICT", "why": "torch.skip", "number": 3}], "object": "Block 2",
    },
    "artifact:ctrace_guard_cost": GUARD_COST,
    "create_symbol": {"symbol": "s77", "val": "8", "vr": "[2, int_oo]", "source": SIZE, "user_stack": LINES, "stack": LINES},
    "create_unbacked_symbol": {"symbol": "u0", "vr": "[0, int_oo]", "user_stack": LINES, "stack": LINES},
    "symbolic_shape_specialization": {
        "symbol": "s77", "sources": [SIZE], "value": "8", "reason": "find", "user_stack": LINES, "stack": LINES,
    },
    "guard_added_fast": {"expr": "Eq(s77, 8)", "user_stack": LINES, "stack": LINES},
    "artifact:ctrace_shapes": {
        "assume_static": True, "automatic": True,
        "symbols": [
            {"name": "s77", "low": 2, "high": None, "sources": [SIZE], "became": "8", "unbacked": False},
        ],
        "tensors": [
            {
                "source": "L['x']", "dtype": "float32", "role": "input", "always": None,
                "dims": [
                    {
                        "became": "8", "symbol": "s77", "size": 8, "stride": 1, "strided": "1", "policy": "dynamic",
                        "constraint": "automatic", "marks": ["dynamic"],
                    },
                ],
            },
        ],
        "static": [{"source": "G['w']", "dtype": "float32", "role": "buffer", "always": "parameter", "sizes": [3]}],
        "numbers": [{"source": "L['n']", "type": "int", "value": "3", "became": "s7", "symbol": "s7", "marks": []}],
        "conditions": ["Eq(s77, 8)"],
    },
    "artifact:ctrace_fusion": {
        "stage": "forward", "before": 2, "after": 1, "refused": 1, "names": ["op0", "op1", "op0_op1"], "reasons": ["far"],
        "ops": ["aten.exp"], "stacks": [f'File "{MODEL}", line 9'],
        "rounds": [
            {"before": 2, "after": 1, "fused": [["a", "b"]]},
            {
                "before": 2, "after": 1, "reorder": True, "tried": 1, "pairs": [[0, 1]],
                "candidates": [[0, 1, 2, 1, 64, 0, -1], [0, 1]], "refused": [[0, 1, 0]],
            },
        ],
        "nodes": [
            {
                "name": name, "kind": "pointwise", "operations": [name], "loops": "8", "ops": [0], "stacks": [0],
                "accesses": [["buf0", 32, 0]], "flops": 8,
            }
            for name in ("op0", "op1")
        ],
        "result": [
            {
                "name": "op0_op1", "kind": "pointwise", "operations": ["op0", "op1"], "loops": "8",
                "accesses": [["buf0", 32, 0]], "flops": 16,
            },
            1,
        ],
        "buffers": [
            {
                "name": "buf0", "role": "output", "dtype": "float32", "shape": ["8"], "stride": ["1"], "device": "cpu",
                "bytes": 32,
            },
        ],
        "outputs": ["buf0"],
    },
    "artifact:ctrace_kernel": {
        "stage": "forward", "name": "k0", "language": "cpp", "ops": ["aten.exp"],
        "stacks": [f'File "{MODEL}", line 9, in forward'], "beside": [f'File "{MODEL}", line 8, in forward'],
        "operations": ["op0"], "statements": [[[123, [0, 1]]]], "user": False, "counted": 1,
    },
    "inductor_output_code": {"filename": "", "stage": "forward"},
    "artifact:ctrace_generated": {
        "stage": "forward", "before": 0, "counted": 1, "buffers": [["buf0", "float32", [2, 3], [3, 1], 0, "cpu"]],
        "symbols": {"s0": 3},
    },
    "artifact:ctrace_user_kernel": {
        "stage": "forward", "operation": "op1", "kernel": "add_kernel", "file": MODEL, "line": 3, "device": "cuda:0",
        "stack": f'File "{MODEL}", line 9, in forward', "decorators": ["Autotuner", "JITFunction"], "assumed": "no",
        "parameters": [{
            "name": "x_ptr", "kind": "tensor", "constexpr": False, "value": "", "dtype": "float32", "shape": ["4"],
            "written": True, "read": None,
        }],
        "grids": [{"sizes": ["4", "1", "1"]}], "configs": [{"sets": {"block": "256"}}], "key": ["size"],
        "heuristics": ["even"], "restored": ["x_ptr"], "zeroed": ["x_ptr"], "flops": False,
        "op": {
            "name": "mylib::add", "file": MODEL, "line": 7, "fallbacks": ["cpu"], "autograd": True, "flops": True,
            "mutates": ["x"],
        },
    },
    "artifact:ctrace_user_kernel_code": {
        "stage": "forward", "operation": "op1", "name": "add_kernel_0", "constants": {"block": "256"},
        "epilogue": "possible",
    },
    "artifact:ctrace_built": {
        "stage": "forward", "kernel": "k0", "hash": "aa", "warps": 4, "stages": 1, "blocks": {"XBLOCK": 8}, "registers": 32,
        "spills": 0, "shared": 64, "seconds": [{"stage": "ptx", "seconds": 0.1}], "chosen": True,
        "open": False, "cached": True,
    },
    "artifact:ctrace_refused": {
        "stage": "forward", "kernel": "k0", "configuration": "XBLOCK=1, num_warps=8", "reason": "OutOfResources: shared",
    },
    "artifact:ctrace_built_chosen": {"stage": "forward", "kernel": "k0", "hash": "aa"},
    "artifact:ctrace_built_code": {"hash": "aa", "texts": {"ptx": "ret;"}, "packed": {"llir": "eJwDAAAAAAE="}},
    "artifact:ctrace_launch_timed": {
        "stage": "forward", "kernel": "k0", "launch": 0, "seconds": 1e-6, "launches": 50, "why": "",
    },
    "artifact:ctrace_gpu": {
        "name": "H100", "capability": [9, 0], "processors": 132, "registers": 65536, "threads": 2048, "shared": 233472,
        "warp": 32, "clock": 1.98e9, "bandwidth": 3.3e12, "copied": 2.9e12, "empty": 2e-6, "tf32": ["matmul"],
        "target": "h100", "l2": 52428800, "rates": {"tf32": 4.9e14}, "vector_rates": {"float32": 6.7e13}, "sources": {"rates": "a paper"},
    },
    "artifact:ctrace_undecided": {
        "stage": "forward", "kind": "autotuning", "subject": "mm(64x32, 32x64)", "taken": "mm", "lines": ["m.py:3"],
        "candidates": [{"name": "triton_mm_1", "language": "triton", "configuration": "BLOCK_M=64"}],
    },
    "artifact:ctrace_asked": {
        "file": MODEL, "line": 4, "function": "forward", "asked": "x.is_cuda", "answer": "True", "as_target": True,
    },
    "artifact:ctrace_codegen_started": {"stage": "forward"},
    "artifact:ctrace_codegen": {"stage": "forward", "seconds": 0.5},
    "artifact:ctrace_codegen_failed": {"stage": "forward", "error": "ValueError: no"},
    "artifact:ctrace_counters": {
        "frames": {"total": 2, "ok": 1}, "graph_break": {"/gb/gb0059.html": 1}, "unimplemented": {},
        "stats": {"unique_graphs": 2}, "recompile_limit": 8, "switched_off": None,
    },
    **{kind: {
        "key": "f5", "components": ["[d1] gm: code"], "cache_status_detailed": "full_miss", "cache_bypass_reason": "no",
    } for kind in LOOKUPS},
    "artifact:precompile_cache_bypass": {"_reason": "no"},
    "artifact:ctrace_autotune": {
        "stage": "inference", "what": "times", "number": 0, "cached": False, "seconds": 0.4, "compile_seconds": 0.1,
        "timing_seconds": 0.3,
        "choices": [
            {
                "name": "mm", "seconds": 0.1, "built": True, "ran": True, "error": "", "runs": 4, "fastest": 0.1,
                "low": 0.1, "median": 0.1, "high": 0.2,
            }
        ],
    },
    "artifact:ctrace_cache": {
        "cache": "triton", "outcome": "hit", "stage": "forward", "key": "ab", "reason": "", "kernel": "triton_0",
    },
    "artifact:ctrace_cache_stored": {"cache": "fx_graph", "key": "f5", "stored": False, "why": "no", "bypassed": True},
    "artifact:ctrace_cache_key": {"cache": "aot_autograd", "key": "a5", "components": ["[d1] gm: code"]},
    "artifact:ctrace_caches": {"kind": "private", "folder": "/c", "switched_off": ["precompile"]},
    "artifact:ctrace_cache_earlier": {
        "cache": "fx_graph", "key": "f5", "run": "before", "earlier": "f4",
        "differs": [{"component": "gm", "was": "x", "now": None}],
    },
    "artifact:ctrace_speed": {
        "verdict": "faster", "scenario": "base", "part": "forward", "eager": 2.0, "compiled": 1.0, "ratio": 2.0,
        "low": 1.5, "high": 2.5, "rounds": 9, "why": "", "cost": 3.0,
    },
    "artifact:ctrace_failure": {"phase": "run", "type": "KeyError", "message": "'a'", "file": MODEL, "line": 9, "todo": ""},
    "artifact:ctrace_problem": {"what": "fusion could not be recorded"},
    "artifact:ctrace_end": {},
}  # fmt: skip
"""A sound record of every kind that holds data."""

TEXTS = {
    "artifact:dynamo_graph_break_reason", "dynamo_cpp_guards_str", "artifact:aot_forward_graph_fw_metadata", *STAGES,
    *(f"artifact:{name}" for name in RECORDS), "artifact:inductor_provenance_tracking_kernel_stack_traces",
}  # fmt: skip
"""Kinds that hold plain text, or that are kept as torch writes them."""

ODD_VALUES: tuple[Any, ...] = (None, True, -1, 10**30, 1.5, float("inf"), "", "x", [], [[]], ["x", 1], {}, {"x": {}})
SAMPLE = 5
"""One in five values runs by default, in every place another one; all run with the slow tests."""

NO_JSON = {
    "nothing": "", "open": "{", "words": "no json", "not-a-number": "NaN", "infinity": "1e999", "long-number": "9" * 5000,
    "deep-list": "[" * 100_000, "deep-object": '{"a": ' * 100_000, "string": '"x"', "list": "[{}]",
}  # fmt: skip
"""Payloads that hold no object, by name: some are too long to be shown."""


def specimen_log(kind: str, data: Any) -> Log:
    """Put one record of a kind into an otherwise sound log, at its end, where nothing replaces it."""
    log = Log().started().compiled("0/0").compiled("0/1").breaks("0/1").guards("0/1", TREE).scenario("first")
    if kind.startswith("artifact:"):
        text = json.dumps(data, indent=0 if isinstance(data, list) else None)
        return log.artifact(kind.removeprefix("artifact:"), text, at="0/1").ended()
    return log.record(kind, data, at="0/1").ended()


def seen(session: Session) -> None:
    """Run every query that reads more of a session than `build` does."""
    assert session.verdict in Verdict
    groups(session)
    caches(session)
    render(kernels_document(session))
    render(compile_document(session))
    render_perfetto(session)
    drawn(screen_of(session, 80), 80)
    drawn(compile_time_screen(compile_document(session), 80), 80)
    for each in session.built:
        assert all(isinstance(text_of(code), str | None) for code in each.ir.values())
    for found in (guarded(session, head) for head in heads(session)):
        by_line(found.guards)
        by_object(found.guards)
        tensor_guards(found.guards)


def replaced(data: Any) -> Iterator[Any]:
    """Replace every part of some data, one at a time, by every odd value."""
    yield from ODD_VALUES
    parts = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, part in parts:
        for value in replaced(part):
            copied = data.copy()
            copied[key] = value
            yield copied


class TestDamage:
    @pytest.mark.thorough
    def test_a_log_cut_anywhere_gives_a_session_and_a_problem(self):
        log = Log().started().frame("0/0").graph("0/0").breaks("0/0").scenario("base").ops(5, 0).ended()
        data = log.text.encode()
        lines = [number for number, line in enumerate(data.splitlines(), 1) if not line.startswith(b"\t")]
        first = data.index(b"\n\t{") + 1
        for end in range(len(data) - 1):
            problems = build(parsed(data[:end])).problems
            assert problems or end <= data.index(b"\nV", first), f"cut at byte {end}"
            assert all(problem.line in [None, *lines] for problem in problems), f"cut at byte {end}"

    @fuzzing
    @given(st.lists(st.integers(0, 10**6), max_size=4), st.binary(max_size=4))
    def test_bytes_changed_anywhere(self, places: list[int], replacement: bytes):
        data = bytearray(whole().breaks("0/0").text.encode())
        for place in places:
            at = place % len(data)
            data[at : at + len(replacement)] = replacement
        build(parsed(bytes(data)))

    def test_every_kind_with_data_has_a_specimen(self):
        assert set(_DECODERS) - set(SPECIMENS) == TEXTS

    @pytest.mark.thorough
    @pytest.mark.parametrize("kind", SPECIMENS)
    @pytest.mark.parametrize("one_in", [SAMPLE, pytest.param(1, marks=pytest.mark.slow)])
    def test_any_value_in_any_place(self, kind: str, one_in: int):
        for damaged in islice(replaced(SPECIMENS[kind]), 0, None, one_in):
            log = specimen_log(kind, damaged)
            try:
                session = log.session()
            except RunError as error:
                assert "newer" in error.what
            except Exception as error:
                pytest.fail(f"{type(error).__name__}: {error}; with {damaged}")
            else:
                seen(session)

    @pytest.mark.parametrize("kind", sampled(SPECIMENS))
    def test_any_field_missing(self, kind: str):
        for name in SPECIMENS[kind] if isinstance(SPECIMENS[kind], dict) else ():
            rest = {key: value for key, value in SPECIMENS[kind].items() if key != name}
            seen(specimen_log(kind, rest).session())

    @fuzzing
    @given(st.sampled_from(list(SPECIMENS)), any_json)
    def test_anything_else_in_a_record_of_a_known_kind(self, kind: str, data: Any):
        try:
            seen(specimen_log(kind, data).session())
        except RunError as error:
            assert "newer" in error.what

    @pytest.mark.parametrize("sizes", ["", ",", "None", "x, 3", "9" * 5000, "-1, ²", "3, 3", "[3]"])
    def test_any_sizes_in_a_guard_on_a_tensor(self, sizes: str):
        checked = "check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False"
        tree = TREE.replace("EQUALS_MATCH: L['x'] == 3", f"TENSOR_MATCH: {checked}, size=[{sizes}], stride=[{sizes}])")
        log = Log().started().compiled("0/0").guards("0/0", tree).compiled("0/1")
        seen(log.recompile("0/1", unmet("L['n'] == 2")).ended().session())

    @pytest.mark.parametrize("name", NO_JSON)
    def test_payloads_that_hold_no_object(self, name: str):
        for kind, specimen in SPECIMENS.items():
            session = Log().artifact(kind.removeprefix("artifact:"), NO_JSON[name], at="0/0").session()
            verdict, whats = session.verdict, [problem.what[:200] for problem in session.problems]
            assert verdict in Verdict
            if kind.startswith("artifact:") and isinstance(specimen, dict) and specimen and "_cache_" not in kind:
                assert len(whats) == 1
                assert whats[0].startswith(f"a {kind} entry is not as expected")
