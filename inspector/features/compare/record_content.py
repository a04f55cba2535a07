"""The content of a record about a compilation, item by item, without what differs between healthy ranks.

Ranks of a healthy job differ in the index of their device, in the ids of objects, in times and in the names of the
process groups that they are in. All of these are left out.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct

from ctrace.inspector.log.fields import loaded
from ctrace.inspector.log.reader import LogEntry


class RankItem(Struct, frozen=True):
    """One item that may differ between ranks."""

    key: str
    """Its name on every rank, such as an input's name."""
    same: str
    """The content that must be equal on all ranks."""
    text: str
    """The text on the screen."""
    file: str = ""
    line: int = 0


class LoweredCall(RankItem, frozen=True, kw_only=True):
    """A collective of a graph below autograd."""

    op: str
    reduction: str
    group: str
    """Torch's name of the process group on this rank."""
    dtype: str
    """As torch prints it, such as `f32`."""
    shape: str


_DEVICE = re.compile(r"\b((?:cuda|xpu|hpu|mtia)(?::|, index=)|device=|index=)\d+")
_ID = re.compile(r"(?<![.\d])\d{8,}(?!\d)|0x[0-9a-f]+")
_UNIQUE = re.compile(r"(?<=\d)_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}\b")
_ANNOTATION = re.compile(r': "[^"\n]*"')
_PLACE = re.compile(r"# (?:.*? )?File: (?P<file>.+?):(?P<line>\d{1,9}) in ")
_INPUT = re.compile(r'(?P<name>[^\W\d]\w*) ?: ?"(?P<type>[^"]*)"')
_COLLECTIVE = re.compile(
    r"\b(?:_c10d_functional(?:_autograd)?|_dtensor|c10d|symm_mem)\.(?P<op>\w+)(?:\.\w+)?\((?P<args>.*)\)"
)
_NAMESPACES = ("_c10d_functional", "_dtensor.", "c10d.", "symm_mem.")
_LOCAL_OPS = ("wait_tensor", "_wrap_tensor_autograd")
_CALL = re.compile(
    r'^\s*\w+(?: ?: ?"(?P<type>[^"]*)")? = torch\.ops\.(?:_c10d_functional(?:_autograd)?|_dtensor|c10d|symm_mem)'
    r"\.(?P<op>\w+)\.\w+\((?P<args>.*)$"
)
_TYPE = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[^\]]*)\]")
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<name>[^'"]*)(?P=quote)""")
_REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")
_RENAMED = re.compile(r"\w+ = [Ll]_\w+")
_GROUP = re.compile(r"""(?P<quote>['"])(?P<name>\d+|[^'"\s]*group[^'"\s]*|[0-9a-f]{32,})(?P=quote)""")
_TENSOR = re.compile(
    r"TENSOR_MATCH: check_tensor\((?P<source>.+?), [\w.]+, DispatchKeySet\([^)]*\), (?P<text>.*)\)", re.DOTALL
)
_LOCAL = re.compile(r"^L\['(\w+)'\]")
_LATENCY = "Guard latency = "
_HASHED = re.compile(r"^\[(?P<hash>\w+)\] (?P<name>[^:\n]*): ?(?P<value>.*)$", re.DOTALL)
_PICKED = re.compile(r"picked_rank_idx=\d+")
# Chosen: texts of all ranks are in memory at once; what is compared is a digest of the whole text.
_LONGEST = 2_000


def items_of(entry: LogEntry) -> Iterator[tuple[str, list[RankItem]]]:
    """Yield the kinds that a record contains, each with its items."""
    match entry.kind:
        case "dynamo_output_graph":
            lines = entry.payload.split("\n")
            yield "input", sorted(_inputs(lines), key=lambda item: item.key)  # the order follows from the graph
            nodes = list(_nodes(lines))
            calls = list(_collectives(nodes))
            if calls:
                yield "collective", calls
            yield "graph", nodes
        case "dynamo_cpp_guards_str":
            yield from _checks(list(_guards(entry.payload)))
        case "artifact:recompile_reasons":
            yield "recompile", [RankItem("reason", _neutral(line), line) for line in entry.payload.split("\n")]
        case "artifact:aot_joint_graph_sync_decision_cross_ranks":
            if match := _PICKED.search(entry.payload):
                yield "collective", [RankItem("torch's choice of what to save for the backward", match[0], match[0])]
        case str(kind) if kind.startswith(("artifact:fx_graph_cache_", "artifact:aotautograd_cache_")):
            if items := list(_components(entry.payload)):
                yield "cache_key", items


SOURCES = {
    "aot_inference_graph": "the inference graph",
    "aot_forward_graph": "the forward graph",
    "aot_backward_graph": "the backward graph",
    "artifact:inductor_post_grad_graph": "Inductor's graph",
    "artifact:inductor_collective_schedule": "Inductor's schedule",
}
"""Records that list collectives after Dynamo's graph, in the order in which a comparison looks.

A cache can keep each of them out of a log: torch stores the graphs with the compiled code and logs them again on a hit,
but not the schedule (_inductor/compile_fx.py and codecache.py, 2.11 to 2.13). So one that is missing says nothing.
"""


def communicated(entry: LogEntry) -> list[RankItem] | None:
    """Return the collectives that a record of `SOURCES` lists, in order; None: it is another record, or damaged."""
    if entry.kind not in SOURCES:
        return None
    name = SOURCES[entry.kind]
    if name == SOURCES["artifact:inductor_collective_schedule"]:
        return _schedule(entry.payload, name)
    # Most graphs communicate nothing, and need not be read line by line.
    if not any(each in entry.payload for each in _NAMESPACES):
        return []
    return list(_lowered(entry.payload.split("\n"), name))


def _lowered(lines: list[str], name: str) -> Iterator[LoweredCall]:
    """Yield the collectives of a graph below autograd: op, group, and type of the result.

    The names of other nodes are left out: a rank that pads its shard first has other ones.
    """
    groups: dict[str, str] = {}
    file, at, number = "", 0, 0
    for line in lines:
        if match := _PLACE.search(line):
            file, at = match["file"], int(match["line"])
        call = _CALL.search(line)
        # These concern the rank alone.
        if call is None or call["op"] in _LOCAL_OPS:
            continue
        number += 1
        # Torch sets values to None behind their last use: `relu = relu(x);  x = None`.
        text = call["args"].partition(";  ")[0].removesuffix(")")
        words = [each["name"] for each in _QUOTED.finditer(text)]
        same = ", ".join(word if word in _REDUCTIONS else _numbered(groups, word) for word in words)
        kind = _TYPE.search(call["type"] or "")
        shown = f"{call['op']}({text})"
        dtype = shape = ""
        if kind is not None:
            dtype, shape = kind["dtype"], kind["shape"]
            shown += f" -> {dtype}[{shape}]"
        # In an all-to-all, ranks may send other sizes.
        compared_shape = "" if "all_to_all" in call["op"] else shape
        key = f"collective {number} of {name}"
        yield LoweredCall(
            key,
            f"{call['op']}({same}) {dtype}[{compared_shape}]",
            shown[:_LONGEST],
            file,
            at,
            op=call["op"],
            reduction=next((word for word in words if word in _REDUCTIONS), ""),
            # The group is the last argument of these ops.
            group=next((word for word in reversed(words) if word not in _REDUCTIONS), ""),
            dtype=dtype,
            shape=shape,
        )


def _numbered(groups: dict[str, str], name: str) -> str:
    return groups.setdefault(name, f"group {len(groups)}")


@lru_cache(maxsize=10_000)
def _neutral(text: str) -> str:
    """Leave out what differs between healthy ranks; cached, since every graph repeats the same lines."""
    return _UNIQUE.sub("", _ID.sub("#", _DEVICE.sub(r"\1#", text)))


def _inputs(lines: list[str]) -> Iterator[RankItem]:
    """Yield the arguments of the printed graph, each with its type."""
    for line in lines:
        if line.lstrip().startswith("def forward("):
            for match in _INPUT.finditer(line):
                yield RankItem(_name(match["name"]), _neutral(match["type"]), match["type"])
            return


def _name(argument: str) -> str:
    """Return the user's name of an argument: `L_self_modules_fc_parameters_bias_` is `self.fc.bias`."""
    match = re.fullmatch(r"[Ll]_(\w+?)_", argument)
    if match:
        return re.sub(r"_(?:modules|parameters|buffers)_", ".", match[1]).strip("_")
    return argument


def _nodes(lines: list[str]) -> Iterator[RankItem]:
    """Yield the statements of the printed graph without types, each with the user's line."""
    file, at = "", 0
    for line in lines:
        text = line.strip()
        if match := _PLACE.search(text):
            file, at = match["file"], int(match["line"])
        if not text or text.startswith(("#", "def forward(", "class ")) or _RENAMED.fullmatch(text):
            continue
        text = _ANNOTATION.sub("", text).partition(";  ")[0]
        yield RankItem("node", _GROUP.sub("'group'", _neutral(text)), text[:_LONGEST], file, at)


def _collectives(nodes: list[RankItem]) -> Iterator[RankItem]:
    """Yield the collective calls of a graph in order; process groups are numbered in the order of their first call."""
    groups: dict[str, str] = {}
    number = 0
    for node in nodes:
        match = _COLLECTIVE.search(node.text)
        if match is None or match["op"] == "wait_tensor":
            continue
        args = _GROUP.sub(lambda found: groups.setdefault(found["name"], f"group {len(groups)}"), match["args"])
        text = f"{match['op']}({match['args']})"
        number += 1
        yield RankItem(f"collective {number}", f"{match['op']}({args})", text[:_LONGEST], node.file, node.line)


def _schedule(payload: str, name: str) -> list[RankItem] | None:
    """Return Inductor's schedule of collectives; None if it cannot be read."""
    try:
        schedule = loaded(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(schedule, list):
        return None
    return [
        RankItem(f"collective {number} of {name}", _neutral(str(each)), str(each)[:_LONGEST])
        for number, each in enumerate(schedule, 1)
    ]


def _guards(payload: str) -> Iterator[RankItem]:
    """Yield the checks of a printed guard tree, without comments."""
    for line in payload.split("\n"):
        # Comments name lines of files, which hosts may have in different folders.
        text = line.partition("  # ")[0].strip(" |+-")
        if text and not text.startswith(_LATENCY):
            yield RankItem("guard", _neutral(text), text[:_LONGEST])


def _checks(guards: list[RankItem]) -> Iterator[tuple[str, list[RankItem]]]:
    """Yield the guards, and the inputs that they describe, as the graph of torch's wrapper around a module has none."""
    if tensors := list(_tensors(guards)):
        yield "input", tensors
    yield "guard", guards


def _tensors(guards: list[RankItem]) -> Iterator[RankItem]:
    for each in guards:
        if match := _TENSOR.fullmatch(each.text):
            text = match["text"]
            name = _LOCAL.sub(r"\1", match["source"])
            yield RankItem(f"{name}, as guarded", _neutral(text), text)


def _components(payload: str) -> Iterator[RankItem]:
    """Yield the parts of a cache key; a part that names a device is compared by its text, any other by its hash."""
    try:
        data: Any = loaded(payload)
    except (ValueError, RecursionError):
        return
    components = None
    if isinstance(data, dict):
        components = data.get("components")
    if not isinstance(components, list):
        return
    for each in components:
        match = _HASHED.match(str(each))
        if match is None:
            continue
        value = match["value"]
        # The hash of a text with the index of a device differs on each rank.
        is_of_device = _DEVICE.search(value) is not None
        if is_of_device:
            same = _neutral(value)
        else:
            same = match["hash"]
        yield RankItem(match["name"], same, value[:_LONGEST])
