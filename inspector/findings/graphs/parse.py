"""Parse the text of a printed graph line by line, so that damaged lines do not affect others.

A line is the statement of one node: `mm: "f32[2, 3][3, 1]cpu" = torch.ops.aten.mm.default(a, b);  a = None`. Brackets,
commas and names are looked for outside of strings only.

What is printed: fx/graph_module.py, `_print_readable`; fx/graph.py, `CodeGen._gen_python_code` and its `emit_node` for
each kind of node, and `_PyTreeCodeGen` and `_tensor_annotation` for inputs and annotations (2.11 to 2.13).
"""

import re
from collections.abc import Container
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.findings.graphs.fx import At, FxGraph, FxNode, FxNodeKind, Output, TensorType

_STRING = r"""(?:[bBrRuU]{0,2}(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))"""
_SIGNS = re.compile(rf"{_STRING}|[()\[\]{{}},]")
# A keyword such as `dim=1` is no name; `a == b` has two.
_NAMES = re.compile(rf"{_STRING}|(?<![\w.])[^\W\d]\w*(?!\w|\s*=[^=])")
_PLAIN_NAMES = re.compile(r"(?<![\w.])[^\W\d]\w*")
"""The same for a text without strings and keywords, as most arguments are."""
# Possessive quantifiers, so that a bracket that is never closed costs one pass over a long line.
_FLAT = r"""[^"'()\[\]{}]"""
_SHALLOW = re.compile(rf"[(\[{{](?:{_FLAT}++|[(\[{{]{_FLAT}*+[)\]}}])*+[)\]}}]")
"""Brackets with at most one more level inside and no strings, as most arguments are: the fast case of `closing`."""
_OPEN, _CLOSE = "([{", ")]}"


def pieces(text: str) -> tuple[str, ...]:
    """Split a text at the commas outside of brackets; drop an empty last piece."""
    found, depth, start = [], 0, 0
    for match in _SIGNS.finditer(text):
        sign = match[0]
        if sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1
        elif sign == "," and not depth:
            found.append(text[start : match.start()].strip())
            start = match.end()
    last = text[start:].strip()
    if last:
        return (*found, last)
    return tuple(found)


def closing(text: str, start: int) -> int:
    """Find the bracket that closes the one at `start`; return -1 if there is none."""
    if shallow := _SHALLOW.match(text, start):
        return shallow.end() - 1
    depth = 0
    for match in _SIGNS.finditer(text, start):
        if match[0] in _OPEN:
            depth += 1
        elif match[0] in _CLOSE:
            depth -= 1
            if not depth:
                return match.start()
    return -1


def left_open(text: str) -> int:
    """Return the number of opening brackets minus closing ones."""
    if '"' not in text and "'" not in text:
        return sum(map(text.count, _OPEN)) - sum(map(text.count, _CLOSE))
    return sum((match[0] in _OPEN) - (match[0] in _CLOSE) for match in _SIGNS.finditer(text))


def names_in(text: str, known: Container[str]) -> tuple[str, ...]:
    """List the known names that an expression reads, each once; ignore keywords and strings."""
    return tuple(dict.fromkeys([name for name in all_names_in(text) if name in known]))


def all_names_in(text: str) -> list[str]:
    """List the names that an expression may read; ignore keywords and strings."""
    is_plain = "=" not in text and '"' not in text and "'" not in text
    return (_PLAIN_NAMES if is_plain else _NAMES).findall(text)


def splits_at(text: str, sign: str) -> int:
    """Find a sign outside of brackets and strings; return -1 if there is none."""
    if sign not in text:
        return -1
    depth = 0
    for match in re.finditer(rf"{_STRING}|[()\[\]{{}}]|{re.escape(sign)}", text):
        found = match[0]
        if found in _OPEN:
            depth += 1
        elif found in _CLOSE:
            depth -= 1
        elif found == sign and not depth:
            return match.start()
    return -1


_ANNOTATED = r"(?P<name>[^\W\d]\w*)(?: ?: ?(?:\"(?P<annotation>[^\"\n]*)\"|(?P<type>[^\"=]+?)))?"
_STATEMENT = re.compile(rf"{_ANNOTATED} = (?P<value>.*)", re.DOTALL)
# Torch prints after a statement which values it was the last to read: `;  a = b = None` (fx/graph.py,
# `delete_unused_values`).
_FREED = re.compile(r";  (?:[^\W\d]\w* = )+None$")
_IN_PLACE = re.compile(rf"(?P<done>.+);  {_ANNOTATED} = (?P<same>.+)", re.DOTALL)
_PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_ON_SELF = re.compile(r"(?:getattr\()*self\b")
_USUAL = re.compile(
    r"([^\W\d]\w*): \"([^\"\n]*)\" = "
    r"(?:(torch(?:\.[^\W\d]\w*)++)\(((?:[^()\[\]{}\"'\n]|\[[^()\[\]{}\"'\n]*+\])*+)\)|([^\W\d]\w*)\[(\d+)\])"
    r"(?:;  (?:[^\W\d]\w* = )+None)?"
)
"""A call of an op whose arguments have no strings and no nested brackets, or an item of a tuple: most statements."""
_ARGUMENT = re.compile(r", ([^\W\d]\w*): \"([^\"=\\\n]*)\"")
_ARGUMENTS = re.compile(rf"self(?:{_ARGUMENT.pattern.replace('(', '(?:')})*+")
_PLACEHOLDER = re.compile(rf"\*{{0,2}}{_ANNOTATED}")
_UNARY = {"-": "neg", "+": "pos", "~": "invert"}
_BINARY = {
    " == ": "eq", " != ": "ne", " <= ": "le", " >= ": "ge", " << ": "lshift", " >> ": "rshift", " ** ": "pow",
    " // ": "floordiv", " < ": "lt", " > ": "gt", " + ": "add", " - ": "sub", " * ": "mul", " / ": "truediv",
    " % ": "mod", " & ": "and_", " | ": "or_", " ^ ": "xor", " @ ": "matmul",
}  # fmt: skip
_CHANGING = {
    " += ": "iadd", " &= ": "iand", " //= ": "ifloordiv", " <<= ": "ilshift", " %= ": "imod", " *= ": "imul",
    " @= ": "imatmul", " |= ": "ior", " **= ": "ipow", " >>= ": "irshift", " -= ": "isub", " /= ": "itruediv",
    " ^= ": "ixor",
}  # fmt: skip
_OPERATOR = "operator."


class NodeStatement(Struct, frozen=True):
    """The parts of a statement that assigns to a node: its name, its annotation, and its value."""

    name: str
    annotation: str
    value: str
    change: str = ""
    """For an in-place operation, the statement of the operation, which torch prints before the name."""


class NodeCall(Struct, frozen=True):
    """What a node does; `args` is the text of its arguments."""

    kind: FxNodeKind
    target: str
    args: str = ""


@lru_cache(maxsize=20_000)
def usual(text: str) -> tuple[str, str, str, str, tuple[str, ...]] | None:
    """Parse a statement of the usual form in one step, which several stages of a graph have; None: of another form.

    Return its name, annotation, target, arguments, and the names that may be nodes that it reads; they are what
    `statement` and `call` return, unless a node has the name `torch`.
    """
    match = _USUAL.fullmatch(text)
    if match is None or match[5] == "self":
        return None
    name, annotation, target, args, whole, at = match.groups()
    if target is None:
        target, args = f"{_OPERATOR}getitem", f"{whole}, {at}"
    return name, annotation, target, args, tuple(dict.fromkeys(all_names_in(args)))


def plain_arguments(text: str) -> list[tuple[str, str]] | None:
    """Parse the arguments of a graph's function to names and annotations; None: one has another form."""
    if _ARGUMENTS.fullmatch(text):
        return _ARGUMENT.findall(text)
    return None


def statement(text: str) -> NodeStatement | None:
    """Split a line into its parts; return None if it is not the statement of a node."""
    # Only a look at the end: the pattern would search every line for its semicolon.
    if text.endswith("None"):
        text = _FREED.sub("", text)
    if match := _STATEMENT.fullmatch(text):
        return NodeStatement(match["name"], match["annotation"] or "", match["value"])
    if match := _IN_PLACE.fullmatch(text):
        return NodeStatement(match["name"], match["annotation"] or "", match["same"], match["done"])
    return None


def call(parts: NodeStatement, known: Container[str]) -> NodeCall | None:
    """Parse what a statement does, or return None if that fails; `known` has the names of earlier nodes."""
    if parts.change:
        return _changed(parts.change)
    value = parts.value
    # A graph may have an input that is called `self`; then `self.sum()` is a method of a node.
    if _ON_SELF.match(value) and "self" not in known:
        return _of_module(value)
    return _called(value, known) or _attribute(value, known) or _item(value) or _operation(value)


def _called(value: str, known: Container[str]) -> NodeCall | None:
    """Parse `path(args)`, a call whose bracket closes at the end; where the path begins with a node, it is a method."""
    path = _PATH.match(value)
    if path is None or not value.startswith("(", path.end()):
        return None
    is_one_call = closing(value, path.end()) == len(value) - 1  # `f(x) + 1` and `f(x).y` are none
    if not is_one_call:
        return None
    target, args = path[0], value[path.end() + 1 : -1]
    first, _, method = target.partition(".")
    # `torch.relu(x)` and `x.relu()` look alike; only the names of nodes tell a method from a function.
    if method and first in known:
        receiver_and_args = first
        if args:
            receiver_and_args = f"{first}, {args}"
        return NodeCall(FxNodeKind.CALL_METHOD, method, receiver_and_args)
    return NodeCall(FxNodeKind.CALL_FUNCTION, target, args)


def _attribute(value: str, known: Container[str]) -> NodeCall | None:
    path = _PATH.fullmatch(value)
    first, _, name = value.partition(".")
    if path and name and first in known:
        return NodeCall(FxNodeKind.CALL_FUNCTION, "getattr", f"{first}, '{name}'")
    return None


def _item(value: str) -> NodeCall | None:
    if not value.endswith("]"):
        return None
    path = _PATH.match(value)
    if path is None or not value.startswith("[", path.end()) or closing(value, path.end()) != len(value) - 1:
        return None
    return NodeCall(FxNodeKind.CALL_FUNCTION, f"{_OPERATOR}getitem", f"{path[0]}, {value[path.end() + 1 : -1]}")


def _operation(value: str) -> NodeCall | None:
    for sign, name in _BINARY.items():
        at = splits_at(value, sign)
        if at > 0:
            left, right = value[:at], value[at + len(sign) :]
            return NodeCall(FxNodeKind.CALL_FUNCTION, _OPERATOR + name, f"{left}, {right}")
    name = _UNARY.get(value[:1], "")
    if name and len(value) > 1:
        return NodeCall(FxNodeKind.CALL_FUNCTION, _OPERATOR + name, value[1:])
    return None


def _changed(text: str) -> NodeCall | None:
    for sign, name in _CHANGING.items():
        at = splits_at(text, sign)
        if at > 0:
            return NodeCall(FxNodeKind.CALL_FUNCTION, _OPERATOR + name, f"{text[:at]}, {text[at + len(sign) :]}")
    at = splits_at(text, " = ")
    item = _item(text[:at]) if at > 0 else None
    if item:
        return NodeCall(FxNodeKind.CALL_FUNCTION, f"{_OPERATOR}setitem", f"{item.args}, {text[at + 3 :]}")
    return None


def _of_module(value: str) -> NodeCall | None:
    """Parse `self.a.b`, `getattr(self.layers, "0").weight`, and calls of these."""
    parts: list[str] = []
    open_ = 0
    rest = value
    while rest.startswith("getattr("):
        open_, rest = open_ + 1, rest.removeprefix("getattr(")
    rest = rest.removeprefix("self")
    while rest:
        if match := re.match(r"\.([^\W\d]\w*)", rest):
            parts.append(match[1])
        elif open_ and (match := re.match(r', "([^"\n]*)"\)', rest)):
            parts.append(match[1])
            open_ -= 1
        else:
            break
        rest = rest[match.end() :]
    target = ".".join(parts)
    if open_ or not parts:
        return None
    if not rest:
        return NodeCall(FxNodeKind.GET_ATTR, target)
    is_call = rest.startswith("(") and closing(rest, 0) == len(rest) - 1
    if is_call:
        return NodeCall(FxNodeKind.CALL_MODULE, target, rest[1:-1])
    return None


def placeholder(text: str) -> NodeStatement | None:
    """Parse one argument of a graph's function: a name, an annotation, a default."""
    name, _, default = text.partition(" = ")
    match = _PLACEHOLDER.fullmatch(name.strip())
    if match:
        return NodeStatement(match["name"], match["annotation"] or "", default)
    return None


_TENSOR = re.compile(
    r"(?P<dtype>[A-Za-z]\w*)\[(?P<sizes>[^\[\]]*)\](?:\[(?P<strides>[^\[\]]*)\])?(?P<device>(?:\w+(?::\d+)?)?)"
)
_WRAPPED = re.compile(rf"(?P<class>\w+)\((?P<tensor>{_TENSOR.pattern})(?:, .*)?\)")
_SYMBOL = re.compile(r"Sym\((?P<expression>.*)\)")


@lru_cache(maxsize=20_000)
def annotation(text: str) -> tuple[TensorType | None, str]:
    """Parse an annotation to a tensor's type or a number's expression; return neither if it has another form."""
    if match := _TENSOR.fullmatch(text):
        return _tensor(match, ""), ""
    if match := _SYMBOL.fullmatch(text):
        return None, match["expression"]
    if match := _WRAPPED.fullmatch(text):
        return _tensor(match, match["class"]), ""
    return None, ""


def _tensor(match: re.Match[str], wrapper: str) -> TensorType:
    strides = match["strides"]
    return TensorType(
        dtype=match["dtype"],
        sizes=_sizes(match["sizes"]),
        strides=None if strides is None else _sizes(strides),
        device=match["device"],
        wrapper=wrapper,
    )


def _sizes(text: str) -> tuple[str, ...]:
    # Only a size with a call, such as `Max(1, s77)`, has commas inside.
    if "(" not in text and text:
        return tuple(text.split(", "))
    return pieces(text)


_NODE = re.compile(r"^ +[^\W\d]\w*: \"[^\"\n]*\" = .*", re.MULTILINE)
_CLASS = re.compile(r"(?P<indent> *)class (?P<name>.+)\(torch\.nn\.Module\):$")
_PLACE = re.compile(r"#(?P<before>.*?) File: (?P<file>.+?):(?P<line>\d+) in (?P<function>.+?), code: ?(?P<code>.*)")
_TAG = re.compile(r"(?:recompute:|ac_graph_id: \d+ -) (?P<tag>\w+)")
_NO_PLACE = "No stacktrace found for following nodes"
_TREE = re.compile(r"(?P<names>.*), = (?:fx_pytree\.tree_flatten_spec|self\._in_shuffle_graph)\(.*\)$")
_DECLARED = re.compile(r"[^\W\d]\w*(?: ?: ?\"[^\"]*\"| : [\w.]+);?(?: |$)(?!=)")
_LIST = ("args_iter = iter(args_list)", "args_list.clear()")
_TAKEN = re.compile(r"(?P<name>[^\W\d]\w*) = next\(args_iter\)")
_RENAMED = re.compile(r"(?P<name>[^\W\d]\w*) = (?P<target>[^\W\d]\w*)")
_UNFLATTEN = "pytree.tree_unflatten("
_DEEPEST = 50
"""The deepest nesting of graphs to parse; torch's graphs nest up to three deep."""
_LONGEST = 200
"""The most lines that one statement may have."""


class _Block(Struct):
    """The class that torch prints for one graph, with its lines without indentation."""

    name: str
    indent: int
    lines: list[str] = field(default_factory=list)
    blocks: list["_Block"] = field(default_factory=list)


def parse(text: str) -> FxGraph | None:
    """Parse a printed graph; return None if the text has no graph."""
    block = _outermost(text)
    if block:
        return _Reader(block).graph()
    return None


def input_names(text: str) -> tuple[str, ...]:
    """Return the names of a printed graph's inputs, as `parse` reads them, without parsing the rest."""
    first = _NODE.search(text)
    for part in (text[: first.end()], text) if first else (text,):
        block = _outermost(part)
        reader = _Reader(block) if block else None
        names = reader.input_names() if reader else ()
        if reader and reader.has_nodes:  # of a damaged graph, the part may have none
            break
    return names


def _outermost(text: str) -> _Block | None:
    """Return the first graph of a text, with the graphs inside of it."""
    top: list[_Block] = []
    open_: list[_Block] = []
    for line in text.splitlines():
        # Most lines are nodes, which a look at the end rules out faster than the pattern.
        head = _CLASS.match(line) if line.endswith("(torch.nn.Module):") else None
        if head is None:
            if open_:
                open_[-1].lines.append(line.strip())
            continue
        block = _Block(head["name"], len(head["indent"]))
        # Deeper graphs become siblings: readers of the tree recurse, and a damaged log may nest without end.
        while open_ and (open_[-1].indent >= block.indent or len(open_) > _DEEPEST):
            open_.pop()
        (open_[-1].blocks if open_ else top).append(block)
        open_.append(block)
    return top[0] if top else None


class _Reader:
    """Parses one graph's lines."""

    def __init__(self, block: _Block) -> None:
        self._block = block
        self._lines = block.lines
        self._next = 0
        self._inputs: dict[str, FxNode] = {}
        """Placeholders, keyed by name; a line of the body may rename one."""
        self._declared: dict[str, FxNode] = {}
        """The placeholders in a tree of inputs, with their types."""
        self._nodes: list[FxNode] = []
        self._known: set[str] = set()
        self._outputs: tuple[Output, ...] = ()
        self._unread: list[str] = []
        self._at: At | None = None
        self._tag = ""

    def input_names(self) -> tuple[str, ...]:
        self._head()
        while self._next < len(self._lines) and not self._nodes:
            self._step()
        return tuple(node.name for node in self._inputs.values())

    @property
    def has_nodes(self) -> bool:
        return bool(self._nodes)

    def graph(self) -> FxGraph:
        self._head()
        while self._next < len(self._lines):
            self._step()
        nodes = (*self._inputs.values(), *self._nodes)
        graphs = tuple(_Reader(block).graph() for block in self._block.blocks)
        return FxGraph(self._block.name, nodes, self._outputs, graphs, tuple(self._unread))

    def _head(self) -> None:
        """Parse `def forward(self, x: "f32[2]"):`, which may have one line per argument."""
        while self._next < len(self._lines) and not self._lines[self._next].startswith("def "):
            self._next += 1
        head, described = "", {}
        while self._next < len(self._lines):
            line, comment = _parted(self._lines[self._next])
            self._next += 1
            if comment and (parts := placeholder(line.rstrip(","))):
                described[parts.name] = comment
            head += f"{line} "
            if line.endswith(":") and left_open(head) <= 0:
                break
        # From the outermost brackets: annotations such as `Sym(s77)` have brackets of their own.
        body = head[head.find("(") + 1 : head.rfind(")")]
        if (plain := plain_arguments(body)) is not None:
            for name, annotated in plain:
                type_, symbol = annotation(annotated)
                comment = described.get(name, "")
                node = FxNode(name, FxNodeKind.PLACEHOLDER, name, type=type_, symbol=symbol, described=comment)
                self._inputs[name] = node
            self._known.update(self._inputs)
            return
        for text in pieces(body):
            if text != "self":
                self._add_input(text, described)

    def _add_input(self, text: str, described: dict[str, str]) -> None:
        if (node := _input(text, described)) is None:
            self._unread.append(text)
        else:
            self._inputs[node.target] = node
            self._known.add(node.name)

    def _step(self) -> None:
        line = self._lines[self._next]
        self._next += 1
        self._line(line)

    def _line(self, line: str) -> None:
        if line.startswith("#"):
            self._comment(line)
        elif line.startswith("return "):
            self._return(line)
        # After the first node, `a = b` is a statement and renames no input.
        elif line and line != "pass" and (self._nodes or not self._is_about_inputs(line)):
            self._statement(line)

    def _comment(self, line: str) -> None:
        if (found := _place(line)) is not None:
            self._at, self._tag = found

    def _is_about_inputs(self, line: str) -> bool:
        """Parse the line that unpacks a graph's tree or list of inputs into names, which precedes all nodes."""
        if match := _TREE.match(line):
            self._flatten(pieces(match["names"]))
        elif match := _RENAMED.fullmatch(line):
            return self._rename(match["name"], match["target"])
        elif match := _TAKEN.fullmatch(line):
            # The list is what the function takes; the inputs are its items.
            self._inputs.pop("args_list", None)
            self._add_input(match["name"], {})
        else:
            return line in _LIST or self._declare(line)
        return True

    def _declare(self, line: str) -> bool:
        if not _DECLARED.match(line):
            return False
        text, comment = _parted(line)
        for part in text.split("; "):
            if part and (node := _input(part.rstrip(";"), {})):
                self._declared[node.target] = replace(node, described=comment)
        return True

    def _flatten(self, names: tuple[str, ...]) -> None:
        self._inputs.clear()
        self._known.clear()
        for name in names:
            self._add_input(name, {})
            if name in self._declared:
                self._inputs[name] = self._declared[name]

    def _rename(self, name: str, target: str) -> bool:
        node = self._inputs.get(target)
        if node is None or node.name != target:
            return False
        self._inputs[target] = replace(node, name=name)
        self._known.discard(target)
        self._known.add(name)
        return True

    def _statement(self, line: str) -> None:
        known = self._known
        if (found := usual(line)) is not None and "torch" not in known:
            name, annotated, target, args, names = found
            type_, symbol = annotation(annotated)
            uses = tuple([each for each in names if each in known])
            self._nodes.append(
                FxNode(
                    name=name,
                    kind=FxNodeKind.CALL_FUNCTION,
                    target=target,
                    args=args,
                    uses=uses,
                    type=type_,
                    symbol=symbol,
                    at=self._at,
                    tag=self._tag,
                )
            )
            known.add(name)
            return
        parts, made = self._read(line)
        lines = 1
        # Bounded, so that one bracket lost from a damaged log does not take all later nodes with it.
        while made is None and self._goes_on(line) and lines < _LONGEST:
            line = f"{line}\n{self._lines[self._next]}"
            self._next, lines = self._next + 1, lines + 1
            parts, made = self._read(line)
        if parts is None or made is None:
            self._unread.append(line)
            return
        type_, symbol = annotation(parts.annotation)
        uses = names_in(made.args, self._known)
        node = FxNode(
            name=parts.name,
            kind=made.kind,
            target=made.target,
            args=made.args,
            uses=uses,
            type=type_,
            symbol=symbol,
            at=self._at,
            tag=self._tag,
        )
        self._nodes.append(node)
        self._known.add(parts.name)

    def _read(self, line: str) -> tuple[NodeStatement | None, NodeCall | None]:
        parts = statement(line)
        return parts, call(parts, self._known) if parts else None

    def _goes_on(self, line: str) -> bool:
        """Whether the statement goes on in the next line, because brackets are open."""
        if self._next >= len(self._lines):
            return False
        following = self._lines[self._next]
        is_new = following.startswith(("# ", "return ")) or statement(following) is not None
        return not is_new and left_open(line) > 0

    def _return(self, line: str) -> None:
        """Parse the return statement, on one line or with one line per value."""
        text, depth = "", 0
        comments: dict[int, str] = {}
        # `_step` is past the line already.
        self._next -= 1
        while self._next < len(self._lines):
            part, comment = _parted(self._lines[self._next])
            self._next += 1
            if comment:
                comments[len(comments)] = comment
            text += f"{part} "
            depth += left_open(part)
            if depth <= 0:
                break
        text = text.removeprefix("return").strip()
        items = _items(text)
        # With another number of comments than values, it is open which one belongs to which. 598/[:9]: `int` refuses a
        # number of thousands of digits, which a damaged log may have.
        described = comments if len(comments) == len(items) else {}
        self._outputs = tuple(Output(item, described.get(at, "")) for at, item in enumerate(items))
        self._nodes.append(FxNode("output", FxNodeKind.OUTPUT, "output", text, names_in(text, self._known)))


@lru_cache(maxsize=20_000)
def _place(line: str) -> tuple[At | None, str] | None:
    """Parse a comment about the nodes below it, which several stages of a graph have; None: it is another comment."""
    match = _PLACE.match(line)
    if match is None and _NO_PLACE not in line:
        return None
    tag = _TAG.search(match["before"] if match else line)
    at = match and At(match["file"], int(match["line"][:9]), match["function"], match["code"])
    return at, tag["tag"] if tag else ""


def _parted(line: str) -> tuple[str, str]:
    """Split a line from torch's trailing comment."""
    at = line.find("  # ")
    if at < 0:
        return (line, "")
    return (line[:at].rstrip(), line[at + 4 :])


def _input(text: str, described: dict[str, str]) -> FxNode | None:
    parts = placeholder(text)
    if parts is None:
        return None
    type_, symbol = annotation(parts.annotation)
    return FxNode(
        parts.name,
        FxNodeKind.PLACEHOLDER,
        parts.name,
        parts.value,
        type=type_,
        symbol=symbol,
        described=described.get(parts.name, ""),
    )


def _items(text: str) -> tuple[str, ...]:
    """List the returned values, without the tree that contains them."""
    if text.startswith(_UNFLATTEN):
        text = next(iter(pieces(text[len(_UNFLATTEN) : -1])), "")
    is_several = text[:1] in ("(", "[") and closing(text, 0) == len(text) - 1
    if is_several:
        return pieces(text[1:-1])
    return (text,)
