"""The graph drawn: boxes for lines and modules that open and fold, and graphs with many nodes."""

from typing import Any

from msgspec.structs import replace

from ctrace.inspector.facts.graph_facts import GraphStage, Module, Printed
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.runs.load import load_log
from tests.support.places import DATA

MANY = 5000


def with_modules() -> Session:
    """Return a run whose first two nodes belong to one layer, the third to another, and the others to none."""
    session = load_log(DATA / "fused.log")
    (each,) = compiled(session)
    graph = each.stage("post_grad").graph
    assert graph is not None
    names = [node.name for node in graph.nodes if node.kind == "call_function"]
    modules = {
        names[0]: Module("layers.0.norm", "LayerNorm"),
        names[1]: Module("layers.0", "Block"),
        names[2]: Module("layers.1", "Block"),
    }
    return replace(session, printed={each.id: replace(each.graphs, aten_modules=modules)})


def long_graph(many: int = MANY) -> Session:
    """Return a run with a graph of thousands of nodes, each on a line and in a layer of its own."""
    session = load_log(DATA / "fused.log")
    (each,) = compiled(session)
    lines = ["class GraphModule(torch.nn.Module):", '    def forward(self, x: "f32[8]"):']
    for at in range(many):
        lines.append(f"         # File: model.py:{at + 10} in forward, code: x = x + {at}")
        lines.append(f'        add_{at}: "f32[8]" = torch.ops.aten.add.Tensor({f"add_{at - 1}" if at else "x"}, {at})')
    lines.append(f"        return (add_{many - 1},)")
    printed = Printed(GraphStage.INFERENCE, "\n".join(lines))
    modules = {f"add_{at}": Module(f"layers.{at % 12}", "Block") for at in range(many)}
    return replace(session, printed={each.id: replace(each.graphs, printed=(printed,), aten_modules=modules)})


def titles(page: Any) -> list[str]:
    found: list[str] = page.locator(".drawing .box-title").all_text_contents()
    return [each.split("  ×")[0] for each in found]


def test_modules_open_and_fold(opened: Any):
    report = opened(with_modules())
    page = report.go("graph?st=post_grad&by=module")
    assert "layers" in titles(page)
    assert "module not known" in titles(page)
    for path in ("layers", "layers.0"):
        page.locator(f".drawing g[data-in='{path}']").focus()
        page.keyboard.press("Enter")
        report.until(f"document.activeElement.dataset.in?.startsWith('{path}')")
    shown = titles(page)
    assert {"layers.0.norm", "layers.1"} < set(shown)
    assert "layers" not in shown
    page.get_by_role("button", name="Fold layers", exact=True).click()
    report.until("document.querySelector(\".drawing g[data-in='layers']\") !== null")
    assert (report.errors, report.foreign()) == ([], [])


def test_without_modules_only_lines_are_offered(opened: Any):
    page = opened(load_log(DATA / "fused.log")).go("graph?by=module")
    assert page.locator("option[value=module]").count() == 0
    assert any(":" in title for title in titles(page))


def test_a_graph_with_thousands_of_lines_begins_with_its_modules(opened: Any):
    report = opened(long_graph())
    page = report.go("graph?st=inference")
    assert titles(page) == ["inputs", "layers", "output"]
    for hash_ in ("graph?st=inference&by=line", "graph?st=inference&by=module&open=*"):
        page = report.go(hash_)
        assert 100 < len(titles(page)) <= 400
        assert "The first 400 of 5,00" in page.locator("main").inner_text()
    assert report.errors == []


def test_a_graph_that_would_freeze_the_page_is_not_drawn(opened: Any):
    report = opened(long_graph(30_000))
    page = report.go("graph?st=inference")
    assert "it has more than 25,000 nodes, and would freeze the page" in page.locator("main").inner_text()
    assert "see it with ctrace graphs --stage inference" in page.locator("main").inner_text()
    for hash_ in ("code?st=inference", "summary", "kernels"):
        report.go(hash_)
    assert report.errors == []
