"""Graphs as ctrace reads them, compared with the live graphs that torch printed."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctrace.inspector.facts.graph_facts import GraphStage
from ctrace.inspector.findings.graphs.fx import FxGraph, FxNodeKind, is_aten, op_name, operations
from ctrace.inspector.findings.graphs.graph_summary import notes
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.graphs.parse import parse
from ctrace.inspector.knowledge.torch_ops import word
from ctrace.inspector.runs.load import load
from ctrace.inspector.runs.store import Store
from tests.integration.conftest import Command
from tests.support.places import ROOT

pytestmark = pytest.mark.integration

ZOO = Path(__file__).with_name("graph_zoo.py")


def described(graph: FxGraph) -> dict[str, Any]:
    """Describe a graph read by ctrace as graph_zoo.py describes a live one."""
    nodes = [
        {
            "name": "output" if node.kind is FxNodeKind.OUTPUT else node.name,
            "kind": str(node.kind),
            "target": node.target,
            "uses": sorted(node.uses),
            "dtype": node.type and node.type.dtype,
            "sizes": node.type and list(node.type.sizes),
            "strides": node.type and list(node.type.strides or ()),
            "device": node.type and node.type.device,
        }
        for node in graph.nodes
    ]
    return {"nodes": nodes, "graphs": [described(each) for each in graph.graphs]}


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_graphs_equal_the_live_ones(ctrace: Command) -> None:
    shutil.copy(ZOO, ctrace.folder)
    done = ctrace("run", "graph_zoo.py", "zoo.json", timeout=900)
    assert done.code == 0, done.err
    records = json.loads((ctrace.folder / "zoo.json").read_text())
    assert len(records) > 80
    for record in records:
        graph = parse(record["text"])
        assert graph is not None
        assert [each.unread for each in graph.whole() if each.unread] == []
        assert described(graph) == record["graph"], record["text"][:4000]
    _in_the_log(ctrace, {record["text"].strip() for record in records})


def _in_the_log(ctrace: Command, texts: set[str]) -> None:
    """Every graph of the log matches a live one, every stage occurs, and ctrace reads all of the text."""
    session = load(Store(ctrace.folder / ".ctrace").load())
    seen, wordless = set(), set()
    for each in compiled(session):
        for staged in each.stages:
            assert list(notes(staged)) == []
            seen.add(staged.stage)
            assert staged.printed.text.partition("\n\n # graph id")[0].strip() in texts
            assert staged.graph is not None
            aten = filter(is_aten, operations(staged.graph))
            wordless |= {op_name(node) for node in aten if not word(op_name(node))}
    assert seen == set(GraphStage)
    assert wordless == set()
    assert session.unknown == {}


def test_described_ops_exist() -> None:
    import torch
    import torch._inductor.inductor_prims

    described_ops = yaml.safe_load((ROOT / "inspector/knowledge/aten.yaml").read_text(encoding="utf-8"))
    for op in described_ops:
        namespace, _, name = op.partition(".")
        assert hasattr(getattr(torch.ops, namespace), name), op
        assert word(op) == word(op).strip() != ""


NONSTRICT = """
import torch

@torch._dynamo.nonstrict_trace
def traced(x):
    return torch.relu(x) + 1

def model(x):
    return traced(x * 2)

inputs = (torch.ones(4),)
"""


def test_a_function_of_nonstrict_trace_is_a_call_that_is_described(ctrace: Command) -> None:
    (ctrace.folder / "model.py").write_text(NONSTRICT)
    assert ctrace("explain", "model.py").code == 0
    shown = " ".join(ctrace("graphs", "--stage", "dynamo", "--ops").out.split())
    assert "a call that AOT traces instead of Dynamo (nonstrict_trace)" in shown
    assert "aten.relu" in ctrace("graphs", "--stage", "inference", "--ops").out


LAYERS = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.linear(x).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * 2


model = Net()
inputs = (torch.rand(4, 8),)
"""


def test_nodes_have_the_modules_that_compute_them(ctrace: Command) -> None:
    (ctrace.folder / "layers.py").write_text(LAYERS, encoding="utf-8")
    assert ctrace("explain", "layers.py", "--train", "--json", "-o", "explain.json").code == 0
    found: dict[str, list[tuple[str, str | None, str | None]]] = {}
    for stage in ("dynamo", "forward", "post_grad", "backward"):
        nodes = ctrace("graphs", "--stage", stage, "--json").report["graph"]["nodes"]
        found[stage] = [
            (each["op"], each["module"], each["module_class"]) for each in nodes if each["module"] is not None
        ]
    assert found["dynamo"] == [
        ("linear", "layers.0.linear", "Linear"),
        ("relu", "layers.0", "Block"),
        ("add", "layers.0", "Block"),
        ("linear", "layers.1.linear", "Linear"),
        ("relu", "layers.1", "Block"),
        ("add", "layers.1", "Block"),
    ]
    for stage in ("forward", "post_grad"):
        computing = [each for each in found[stage] if each[0] in ("aten.addmm", "aten.relu", "aten.add")]
        assert computing == [
            (f"aten.{'addmm' if op == 'linear' else op}", path, kind) for op, path, kind in found["dynamo"]
        ]
    assert ("aten.mm", "layers.1.linear", "Linear") in found["backward"]
    assert ("aten.mm", "layers.0.linear", "Linear") in found["backward"]
