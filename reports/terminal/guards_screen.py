"""Screen of `ctrace guards`: what each graph requires, which source line created the guard, and what checks cost.

Screen of `ctrace guards --cost`: how long checking the guards takes.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from rich.console import Group, RenderableType
from rich.text import Text

from ctrace.inspector.facts.guard_facts import Guard, GuardCost, GuardNode
from ctrace.inspector.findings.guard_view import (
    GuardBranch,
    GuardedCompilation,
    GuardFilter,
    GuardsDocument,
    Head,
    TensorGuard,
    about,
    by_kind,
    by_line,
    by_object,
    constants,
    place_text,
    tensor_guards,
)
from ctrace.inspector.source.source_names import user_name
from ctrace.inspector.source.text import python_lines
from ctrace.reports import format as fmt
from ctrace.reports.terminal.widgets import GAP, MOST, hanging, item, more, section, table

_LISTED = 24
"""How many guards, lines or objects to list without --all."""
# Chosen: the summary has four tables, which share a page.
_OBJECTS = 14
_SHARE = 40
"""Objects with less than 1 of this many guards are not listed."""
_KINDS = {
    "TENSOR_MATCH": "class, dtype, device, grad, sizes, strides of a tensor",
    "DIMENSION_DYNAMIC_MARKING_GUARD": "marks on the dimensions of a tensor",
    "TYPE_MATCH": "the type of an object",
    "ID_MATCH": "the identity of an object",
    "EQUALS_MATCH": "an equal value",
    "CONSTANT_MATCH": "an equal value",
    "LENGTH_CHECK": "the number of items",
    "DICT_LENGTH": "the number of items",
    "DICT_CONTAINS": "whether a key is present",
    "SET_CONTAINS": "whether an item is present",
    "NONE_MATCH": "None",
    "NOT_NONE": "not None",
    "TRUE_MATCH": "True",
    "FALSE_MATCH": "False",
    "NO_HASATTR": "that an attribute is missing",
    "OBJECT_ALIASING": "two names for one object",
    "NO_TENSOR_ALIASING": "tensors that are different objects",
    "STORAGE_OVERLAPPING": "tensors that share memory, or do not",
    "SYMBOLIC_SHAPE_GUARD": "relations between sizes",
    "LAMBDA_GUARD": "an expression in Python: slow",
    "GLOBAL_STATE": "grad mode, autocast, thread count, default dtype and similar",
    "TORCH_FUNCTION_MODE_STACK": "modes that override torch functions",
    "DEFAULT_DEVICE": "the default device",
    "WEAKREF_ALIVE": "an object that still exists",
    "DICT_VERSION": "a dict that did not change",
    "MAPPING_KEYS_MATCH": "the keys of a mapping",
    "TUPLE_ITERATOR_LEN": "the position of an iterator",
    "RANGE_ITERATOR_MATCH": "the position of an iterator",
    "LIST_REVERSEITERATOR_LEN": "the items left in a reversed list: slow, Python",
    "COUNT_ITERATOR_MATCH": "the position of itertools.count: slow, Python",
    "COW_TENSOR_MATCH": "whether a tensor is a lazy copy: slow, Python",
    "CURRENT_STREAM_MATCH": "whether a stream is the current one: slow, Python",
    "DISPATCH_KEY_SET_MATCH": "the dispatch keys of a tensor",
    "EMPTY_NN_MODULE_HOOKS_DICT": "module hooks: compiled code ignores hooks added later",
}
"""What each of torch's kinds of guards checks (torch/csrc/dynamo/guards.cpp, _dynamo/guards.py, 2.13 and 2.15)."""


def guards_screen(
    document: GuardsDocument, width: int, *, view: str = "summary", all_of_it: bool = False
) -> Iterator[RenderableType]:
    """Show the guards of some compilations; `view` is one of `summary`, `line`, `kind`, `object`, `tree`, `cost`."""
    if not document.compilations:
        yield Text("\nNo guards: nothing was compiled, or the log does not record them.")
    for each in document.compilations:
        yield from _compilation(each, document, width, view=view, all_of_it=all_of_it)
        if each.tree.is_misplaced:
            yield Text("! source lines are from torch's comments: those recorded do not match", style="yellow")
        if each.tree.unread:
            yield Text(f"! {fmt.count(each.tree.unread, 'line')} of torch's text could not be read", style="yellow")
    if document.others:
        yield section("Other compilations (see --all, or --graph ID)")
        for head in document.others[:MOST]:
            yield item(_head(head, document.cwd, in_full=False))
        if len(document.others) > MOST:
            yield Text(f"  and {len(document.others) - MOST} more", style="dim")


def _head(head: Head, cwd: str, *, in_full: bool = True) -> Text:
    at = head.compilation
    facts = [fmt.count(head.number, "guard")]
    if in_full and at.guards is not None and at.guards != head.number:
        facts = [f"{facts[0]} checked, {at.guards} created while tracing"]
    if head.latency is not None:
        how = fmt.when(in_full, " per check with cold caches, measured once by torch")
        facts.append(f"{fmt.microseconds(head.latency)}{how}")
    return Text.assemble(
        (f"{at.id} {fmt.one_line(at.function, 60)}", "bold"),
        f" ({fmt.place(at.file, head.line, cwd)})  ",
        (" · ".join(facts), "dim"),
    )


def _compilation(
    each: GuardedCompilation, document: GuardsDocument, width: int, *, view: str, all_of_it: bool
) -> Iterator[RenderableType]:
    yield Text()
    yield _head(each.head, document.cwd)
    chosen, choice = each.chosen, each.choice
    if choice and view in ("summary", "kind", "object"):
        yield Text(f"{fmt.count(len(chosen), 'guard')} selected", style="dim")
    most = len(each.guards) if all_of_it else _LISTED
    match view:
        case "tree":
            yield from _tree(each, choice, width, most)
        case "cost":
            yield from cost_lines(each, document, width)
        case "line":
            yield from _by_line(chosen, document, width, most)
        case "kind":
            yield from _kinds(chosen, most)
        case "object":
            yield from _objects(chosen, most)
        # With a filter, the guards are what was asked for, and a summary would hide them.
        case _ if choice:
            yield from _listed(chosen, document.cwd, width, most)
        case _:
            yield from _summary(each, document, width)


def _summary(each: GuardedCompilation, document: GuardsDocument, width: int) -> Iterator[RenderableType]:
    yield from _objects(each.guards, _OBJECTS)
    yield from _kinds(each.guards, MOST)
    # Parameters are most of a model's tensors, and their guards are all alike.
    yield from _tensors([tensor for tensor in each.tensors if not tensor.is_parameter], "Tensors", MOST)
    parameters = len([tensor for tensor in each.tensors if tensor.is_parameter])
    if parameters:
        number = fmt.count(parameters, "parameter or buffer", "parameters and buffers")
        yield Text(f"  and {number}: see --kind TENSOR_MATCH")
    yield from _constants(each, document, width)
    for left in each.left_out:
        what = fmt.framed(", ", _KINDS.get(left.kind))
        yield Text(
            f"\nNot checked: {fmt.count(left.number, 'guard')} {fmt.plain(left.kind)}{what} ({fmt.plain(left.why)})."
        )


def _objects(guards: Iterable[Guard], most: int) -> Iterator[RenderableType]:
    guards = tuple(guards)
    yield section("Guards by object")
    # Only the summary, which asks for that many lines, leaves small objects out.
    lines = list(_branches(by_object(guards), 1, len(guards) / _SHARE if most == _OBJECTS else 0))
    yield from lines[:most]
    yield from more(len(lines), "", "--by-object --all", most=most)


def _branches(branches: tuple[GuardBranch, ...], depth: int, least: float) -> Iterator[Text]:
    """Write one line per branch; a branch with a single child shares the child's line."""
    for branch in branches:
        if _total(branch) < least:
            continue
        name, inner = branch.name, branch
        while inner.times == 1 and len(inner.branches) == 1 and _total(inner.branches[0]) == inner.number:
            inner = inner.branches[0]
            name += inner.name if inner.name.startswith((".", "[")) else f": {inner.name}"  # `globals: torch`
        times = fmt.repeated(inner.times, "", " × ")
        shown = fmt.one_line(name, 60)
        yield Text.assemble(f"{'  ' * depth}{shown}  ", (f"{times}{inner.number}", "dim"))
        # The line above counts the guards of inner objects, so that one guard alone needs no line.
        yield from _branches(inner.branches, depth + 1, max(least, 2))


def _total(branch: GuardBranch) -> int:
    return branch.number * branch.times


def _kinds(guards: Iterable[Guard], most: int) -> Iterator[RenderableType]:
    yield section("Guards by kind")
    found = by_kind(guards)
    for kind, number in found[:most]:
        yield Text.assemble(f"  {number:>5}  {fmt.plain(kind)}", (fmt.framed("  ", _KINDS.get(kind)), "dim"))
    if len(found) > most:
        left = sum(number for _, number in found[most:])
        yield Text(f"  {left:>5}  of {len(found) - most} other kinds: see --by-kind", style="dim")


def _tensors(tensors: list[TensorGuard], title: str, most: int) -> Iterator[RenderableType]:
    if not tensors:
        return
    yield section(title)
    for tensor in tensors[:most]:
        yield from _tensor(tensor)
    yield from more(len(tensors), "", "--kind TENSOR_MATCH --all", most=most)


def _tensor(tensor: TensorGuard) -> Iterator[RenderableType]:
    sizes, strides = (
        ", ".join(fmt.known(each, otherwise="any") for each in numbers) for numbers in (tensor.sizes, tensor.strides)
    )
    grad = "no grad"
    if tensor.requires_grad:
        grad = "requires grad"
    yield Text.assemble(
        (f"  {fmt.one_line(tensor.name, 60)}", "bold"),
        f"  {tensor.type} {tensor.dtype}[{sizes}]  {tensor.device}, {grad}, {len(tensor.sizes)}-dimensional",
    )
    yield item(hanging(f"strides [{strides}]: {tensor.layout}", "dim"))
    yield item(hanging(f"dispatch keys {', '.join(tensor.dispatch_keys)}", "dim"))


def _constants(each: GuardedCompilation, document: GuardsDocument, width: int) -> Iterator[RenderableType]:
    found = constants(each.guards, document.run.environment.prefixes)
    if not found:
        return
    yield section("Values compiled in as constants")
    rows = table("value", "is", "read at")
    for constant in found[:MOST]:
        name, value = fmt.one_line(constant.subject, width // 3), fmt.one_line(constant.value, width // 5)
        rows.add_row(name, value, fmt.one_line(place_text(constant.guard.place), width // 3))
    yield item(rows)
    yield from more(len(found), "", "--kind EQUALS_MATCH")


def _by_line(guards: Iterable[Guard], document: GuardsDocument, width: int, most: int) -> Iterator[RenderableType]:
    groups = by_line(guards)
    for place, members in groups[:most]:
        where = "torch itself" if place is None else fmt.place(place.file, place.line, document.cwd)
        yield Text.assemble((f"\n{where}", "bold"), f"  {fmt.count(len(members), 'guard')}")
        if place is not None and (source := _source(place.file, place.line, document) or place.source):
            yield Text(f"  {fmt.one_line(source, width - 4)}", style="cyan")
        names = dict.fromkeys(about(member) or user_name(member.code) for member in members)
        kinds = ", ".join(f"{number} {kind}" for kind, number in by_kind(members)[:4])
        yield Text(f"  {fmt.one_line(kinds, width - 4)}", style="dim")
        yield Text(f"  {fmt.one_line(fmt.listed(names, 4), 2 * width)}")
    yield from more(len(groups), "line", "--all", most=most, before="\n")


def _source(file: str, line: int, document: GuardsDocument) -> str:
    lines = python_lines(document.listings.get(file, ""))
    if 0 < line <= len(lines):
        return lines[line - 1].strip()
    return ""


def _listed(guards: tuple[Guard, ...], cwd: str, width: int, most: int) -> Iterator[RenderableType]:
    tensors = {tensor.guard: tensor for tensor in tensor_guards(guards)}
    for guard in guards[:most]:
        if guard in tensors:
            yield Group(*_tensor(tensors[guard]))
            continue
        yield Text.assemble((f"  {guard.kind}  ", "dim"), fmt.one_line(user_name(guard.code), 2 * width))
        if guard.place is not None:
            yield Text(f"    {fmt.place(guard.place.file, guard.place.line, cwd)}", style="dim")
    yield from more(len(guards), "", "--all", most=most)


def _tree(each: GuardedCompilation, choice: GuardFilter, width: int, most: int) -> Iterator[RenderableType]:
    """Write torch's guard tree, one line per node and one per guard."""
    lines = _node(each.tree.root, 0, choice, width)
    yield from islice(lines, most)
    # Torch checks these after the tree, so they are shown even where the tree is cut.
    for guard in each.tree.epilogue:
        if choice.takes(guard):
            yield _leaf(guard, 1, width)
    # `islice` does not tell whether anything is left.
    if next(lines, None) is not None:
        yield Text("  ... and more: see --all, or choose with --name, --kind or --line", style="dim")


def _node(node: GuardNode, depth: int, choice: GuardFilter, width: int) -> Iterator[RenderableType]:
    if not any(choice.takes(guard) for guard in node.all_guards()):
        return
    name = fmt.one_line(node.source, max(width - GAP * depth - 30, 20)) if depth else "all guards"
    kind = fmt.framed("  ", fmt.one_line(node.type, 40))
    yield Text.assemble("  " * depth, (name, "bold"), (kind, "dim"))
    for guard in node.guards:
        if choice.takes(guard):
            yield _leaf(guard, depth + 1, width)
    for below in node.nodes:
        yield from _node(below, depth + 1, choice, width)


def _leaf(guard: Guard, depth: int, width: int) -> Text:
    code = fmt.one_line(guard.code, max(width - GAP * depth - len(guard.kind) - 2, 20))
    return Text.assemble("  " * depth, (f"{guard.kind}  ", "dim"), code)


_PYTHON = "LAMBDA_GUARD"
_SHORTER = 1.2
"""The speedup from which the screen mentions torch's shortcut."""
_NUMBERS = 34
"""The width of the columns except the name, in the table of parts."""


def cost_lines(each: GuardedCompilation, document: GuardsDocument, width: int) -> Iterator[RenderableType]:
    """Show the measured cost of one compilation's guards."""
    cost = each.cost
    if cost is None:
        yield Text("Not measured. Run `ctrace guards --cost TARGET`; it takes some seconds for each compilation.")
        return
    yield _whole(cost)
    # Parts are measured without the shortcut, and would not add up to the time above.
    if cost.plain.warm > _SHORTER * cost.whole.warm:
        plain = f"{fmt.microseconds(cost.plain.warm)} warm, {fmt.microseconds(cost.plain.cold)} cold"
        yield Text(f"Without torch's shortcut for unchanged modules, as in the parts below: {plain}.")
    yield _of_a_call(each, cost, document)
    yield section("By part")
    rows = table("part", "guards", "cold", "warm")
    rows.add_row("torch's own state", "", fmt.microseconds(cost.root.cold), fmt.microseconds(cost.root.warm))
    for part in cost.parts:
        title = user_name(part.source) if part.source else "smaller parts"
        name = f"{'  ' * part.depth}{fmt.one_line(title, width - _NUMBERS - 2 * part.depth)}"
        rows.add_row(name, str(part.guards), _time(part.time.cold), _time(part.time.warm))
    if cost.epilogue:
        rows.add_row("relations, checked in Python", "", "", fmt.microseconds(cost.epilogue))
    yield item(rows)
    yield section("By kind, warm, without the lookup of the values")
    for kind in sorted(cost.kinds, key=lambda kind: -kind.warm):
        cost_of_kind = f"  {fmt.microseconds(kind.warm):>8}  {kind.number:>4} {fmt.plain(kind.kind)}"
        yield Text.assemble(cost_of_kind, (fmt.framed("  ", _KINDS.get(kind.kind)), "dim"))


def _time(difference: float) -> str:
    """Write the difference of two measurements, which noise can make negative near zero."""
    if difference > 0:
        return fmt.microseconds(difference)
    return "≈ 0 µs"


def _of_a_call(each: GuardedCompilation, cost: GuardCost, document: GuardsDocument) -> Text:
    """Compare the guards' time with a compiled call of the same scenario."""
    scenario = each.scenario
    if scenario is None or scenario.call_seconds is None:
        return Text("One call of the compiled function: not measured.", style="dim")
    how = fmt.when(not document.run.environment.built, " with its graphs run eagerly (--build runs the kernels)")
    call = scenario.call_seconds * 1e6
    share = 100 * cost.whole.warm / call
    takes = f"One call in {fmt.one_line(scenario.name, 40)} takes {fmt.microseconds(call)}{how}"
    return Text(f"{takes}; guards are {share:.1f}% of it.")


def _whole(cost: GuardCost) -> Text:
    # Relations between sizes are Python code as well, and are none of the kinds.
    in_python = sum(kind.warm for kind in cost.kinds if kind.kind == _PYTHON) + cost.epilogue
    share = f"{100 * in_python / cost.whole.warm:.0f}%" if cost.whole.warm else "?"
    return Text(
        f"Checking all guards: {fmt.microseconds(cost.whole.warm)} warm, {fmt.microseconds(cost.whole.cold)} with cold "
        f"caches; Python guards take {fmt.microseconds(in_python)} of the warm time ({share})."
    )
