"""Screens that show the nodes of a graph: at one stage, of one line at all stages, or counted by op.

Attention on a screen: whether it is fused, and if not, why and what to do.
"""

from collections import Counter
from collections.abc import Iterator
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.findings.graphs.attention_view import AttentionGroup, AttentionState
from ctrace.inspector.findings.graphs.fx import At, FxGraph, FxNode, counted, operations
from ctrace.inspector.findings.graphs.graph_lines import LineGroup, NodesAtLine, groups
from ctrace.inspector.findings.graphs.graphs_document import GraphLineDocument, GraphStageDocument
from ctrace.inspector.findings.graphs.passes_view import Origin, common_origin
from ctrace.inspector.knowledge.torch_ops import word
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import MOST, capped, fix, hanging, item, more, section, table
from ctrace.reports.wording.graphs_wording import call_text, input_words, output_words, place_text, result_text

_STYLES = {AttentionState.WRONG: "bold red", AttentionState.FUSED: "green", AttentionState.MATCHED: "green"}
# Chosen: line numbers of one file in a list of places, which is part of a line.
_PLACES = 4


def attention_item(answer: AttentionGroup, cwd: str) -> RenderableType:
    """Show one attention: its outcome, place, reason and fix."""
    each = answer.attention
    style = _STYLES.get(answer.state, "yellow")
    text = answer.sentence[:1].upper() + answer.sentence[1:]
    facts = [places(each.lines, cwd), f"graph {each.graph}", fmt.repeated(answer.times, "", " times")]
    if each.dtype:
        facts.append(f"{each.dtype} on {each.device}")
    facts.append(each.matched or "")
    details = "  " + " · ".join(fmt.one_line(fact, 120) for fact in facts if fact)
    head = Text.assemble((fmt.one_line(text, 200), style), (details, "dim"))
    lines: list[RenderableType] = [head]
    if answer.why:
        lines.append(hanging(answer.why))
    if answer.fix:
        lines.append(fix(answer.fix))
    return item(Group(*lines))


def places(lines: tuple[str, ...], cwd: str) -> str:
    """Write `file.py:10,12`, each file once."""
    by_file: dict[str, list[str]] = {}
    for line in lines:
        file, _, number = line.rpartition(":")
        by_file.setdefault(fmt.place(file, None, cwd), []).append(number)
    listed = (
        f"{file}:{','.join(numbers[:_PLACES])}{'…' if len(numbers) > _PLACES else ''}"
        for file, numbers in by_file.items()
    )
    return fmt.listed(listed, 2)


# Chosen: two pages; a graph of a large model has thousands of nodes.
_MOST_NODES = 80
# Chosen: inputs include all parameters of a model.
_MOST_OUTPUTS = 12
# The indent of three columns, and room at the end of the line.
_HANGING = 6
_GLUE = "\ue000"
"""Stands for a non-breaking space: a private letter, which `plain` removes from all text of a log."""


def stage_screen(document: GraphStageDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show one graph at one stage, with the source line above each group of nodes."""
    graph = document.graph
    yield _title(document)
    if graph is None:
        yield Text("ctrace cannot read a graph in this text. Here is what torch printed.", style="yellow")
        yield Text(fmt.plain(document.staged.printed.text))
        return
    yield from (Text(fmt.one_line(note), style="yellow") for note in document.notes)
    yield from _Stage(document, graph, width, all_of_it=all_of_it).lines()


def _title(document: GraphStageDocument) -> RenderableType:
    each = document.each
    counts = ""
    if graph := document.graph:
        nodes = sum(1 for _ in graph.everything())
        counts = f"  {fmt.count(nodes, 'node')}, {fmt.count(len(operations(graph)), 'op')}"
    place = fmt.place(each.compilation.file, each.line, document.cwd)
    head = f"{each.id}  {fmt.plain(each.compilation.function)}, stage {document.staged.label}"
    return Text.assemble((head, "bold"), counts, (f"  {place}", "dim"))


class _Stage:
    """Draws one graph at one stage."""

    def __init__(self, document: GraphStageDocument, graph: FxGraph, width: int, *, all_of_it: bool) -> None:
        self._document = document
        self._graph = graph
        self._width = width
        self._all = all_of_it
        self._left = 10**9 if all_of_it else _MOST_NODES
        self._device = _device(graph)

    def lines(self) -> Iterator[RenderableType]:
        yield from self._inputs()
        for graph in self._graph.whole():
            yield from self._body(graph)
        yield from more(-self._left, "node", "--all", most=0, before="\n")
        yield from self._outputs()
        if self._device and not self._all:
            yield Text(f"\nAll on {fmt.plain(self._device)} unless noted. Strides only for tensors that are "
                       "not contiguous.", style="dim")  # fmt: skip

    def _inputs(self) -> Iterator[RenderableType]:
        inputs = self._graph.placeholders()
        if not inputs:
            return
        yield section("Inputs")
        shown = capped(inputs, _MOST_OUTPUTS, all_of_it=self._all)
        names = self._document.inputs
        for number, node in enumerate(shown):
            name = input_words(node.described, names)
            # Only AOTAutograd describes inputs (2.13, _functorch/_aot_autograd/descriptors.py); Dynamo's are in their
            # order.
            if self._document.staged.is_traced:
                name = "".join(names[number : number + 1])
            yield self._line(node.name, fmt.one_line(name), node)
        yield from more(len(inputs), "input", "--all", most=len(shown), before="   ")

    def _body(self, graph: FxGraph) -> Iterator[RenderableType]:
        # Graphs inside of it are bodies, such as the branches of torch.cond.
        if graph is not self._graph:
            inputs = ", ".join(node.name for node in graph.placeholders())
            yield section(f"Inside: {fmt.one_line(graph.name)}({fmt.one_line(inputs)})")
        for group in groups(graph):
            if self._left > 0:
                yield line_title(group.at, self._document.cwd, self._origin(group))
            for node in group.nodes:
                # Goes on below 0, where it counts the nodes that are left out.
                self._left -= 1
                if self._left >= 0:
                    yield self._line(node.name, call_text(node), node)
        if graph is not self._graph and self._left >= 0:
            returned = ", ".join(output.text for output in graph.outputs)
            yield Text(f"   returns {fmt.one_line(returned, 200)}", style="dim")

    def _origin(self, group: LineGroup) -> Origin | None:
        """Return the pass that made nodes without a source line."""
        if group.at is not None:
            return None
        return common_origin(self._document.origins, (node.name for node in group.nodes))

    def _outputs(self) -> Iterator[RenderableType]:
        outputs = self._graph.outputs
        yield section("Returns")
        shown = capped(outputs, _MOST_OUTPUTS, all_of_it=self._all)
        for output in shown:
            words = output_words(output.described, self._document.inputs)
            node = self._graph.node(output.text)
            yield self._line(fmt.one_line(output.text, 60), words, node) if node else _plain_output(output.text, words)
        yield from more(len(outputs), "output", "--all", most=len(shown), before="   ")

    def _line(self, name: str, call: str, node: FxNode) -> RenderableType:
        tag = fmt.framed("  ", fmt.plain(node.tag or ""))
        return node_line(name, call, result_text(node, self._device, strides=self._all) + tag, self._width)


def _plain_output(text: str, words: str) -> RenderableType:
    return item(Text(f"  {fmt.one_line(text, 60)}  {words}", style="dim"))


def line_title(at: At | None, cwd: str, origin: Origin | None = None) -> RenderableType:
    """Write the source line above its nodes, after an empty line; if a pass made the nodes, name the pass."""
    made_by = _origin_words(origin, cwd) if origin else ""
    title = Text(f"no source line{fmt.framed(': made by ', made_by)}", style="dim")
    if at is not None:
        title = Text(place_text(at, cwd), style="cyan")
    return Group("", item(title))


def _origin_words(origin: Origin, cwd: str) -> str:
    where = fmt.framed(" from ", places(origin.lines, cwd))
    return f"torch's pass {fmt.one_line(origin.title, 60)}{where}"


def node_line(name: str, call: str, result: str, width: int, mark: str = " ") -> RenderableType:
    """Write `name  call  → result`, folded with an indent if it is too long."""
    named = fmt.one_line(name, 60)
    arrow = fmt.framed("→ ", result).replace(" ", _GLUE)
    whole = fmt.joined("  ", named, call, arrow)
    lines = wrap(whole, max(width - _HANGING, 30), subsequent_indent="    ", break_on_hyphens=False) or [named]
    text = Text(f" {mark} {lines[0]}".replace(_GLUE, " "))
    text.append("".join(f"\n   {line}" for line in lines[1:]).replace(_GLUE, " "))
    text.stylize("bold", 3, 3 + len(named))
    return text


def _device(graph: FxGraph) -> str:
    """Return the device that most tensors are on."""
    devices = Counter(node.type.device for node in graph.everything() if node.type)
    if devices:
        return devices.most_common(1)[0][0]
    return ""


def ops_screen(document: GraphStageDocument) -> Iterator[RenderableType]:
    """Count the ops of one stage, and describe each."""
    yield _title(document)
    if document.graph is None:
        yield Text("ctrace cannot read a graph in this text.", style="yellow")
        return
    shown = table("op", "times", "what it does")
    shown.columns[1].justify = "right"
    shown.columns[2].no_wrap = False
    for op, times in counted(operations(document.graph)):
        # Dynamo's graph has functions of torch, such as `relu`, which the table has under aten's names.
        meaning = word(op) or word(f"aten.{op}")
        shown.add_row(fmt.one_line(op), str(times), Text(meaning, style="dim"))
    yield item(shown)


def line_screen(document: GraphLineDocument, width: int, *, all_of_it: bool = False) -> Iterator[RenderableType]:
    """Show the nodes of one source line at every stage."""
    at = document.stages[0].nodes[0].at
    if at is not None:
        yield Text(place_text(at, document.cwd), style="bold")
    before: tuple[str, tuple[tuple[str, str], ...]] | None = None
    for each in document.stages:
        nodes = (each.each.id, tuple((node.name, call_text(node)) for node in each.nodes))
        # A stage that leaves the line alone would repeat its nodes.
        if nodes == before:
            yield Text(f"\n{each.each.id}  {each.staged.label}  the same", style="dim")
            continue
        before = nodes
        yield from _of_line(each, width, all_of_it=all_of_it)


def _of_line(each: NodesAtLine, width: int, *, all_of_it: bool) -> Iterator[RenderableType]:
    number = fmt.count(len(each.nodes), "node")
    yield Text.assemble("\n", (f"{each.each.id}  {each.staged.label}", "bold"), (f"  {number}", "dim"))
    device = _device(each.staged.graph) if each.staged.graph else ""
    shown = capped(each.nodes, 3 * MOST, all_of_it=all_of_it)
    for node in shown:
        yield node_line(node.name, call_text(node), result_text(node, device, strides=all_of_it), width)
    yield from more(len(each.nodes), "node", "--all", most=len(shown), before="   ")
