"""Parse the module that Inductor generated for a graph part: the source and the calls of each kernel.

The module is never executed. A kernel is defined as `name = async_compile.triton('name', '''source''', ...)` or
`name = async_compile.cpp_pybinding([...], r'''source''')` (2.11 and 2.13, `define_kernel` of codegen/triton.py and
cpp.py), and called as `name.run(...)`, `name(...)`, or, for a library function, by its name.

A log without ctrace's own records has less: the module of each graph part and, with
`inductor.config.trace.provenance_tracking_level`, the stack traces behind each kernel. Its kernels are read from these;
buffers, bytes and fused nodes stay unknown.
"""

import ast
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.kernel_facts import Kernel, Launch, OutputCode
from ctrace.inspector.facts.session import Problem, Session, TorchCode
from ctrace.inspector.log.fields import loaded
from ctrace.inspector.source.stacks import user_lines

_COMPILERS = "async_compile."
_IDLE = re.compile(
    r"^ +(?:"
    r"(?:\w+ = (?:empty_strided\w*|rand_strided|reinterpret_tensor)|assert_\w+)"
    r"\((?:[\w., '=]|\([\w, ]*\))*+\)(?:; del \w+)?"
    r"|\w+ = \w+; del \w+|del \w+"
    r")(?:  # reuse)?$",
    re.MULTILINE,
)
"""Statements that allocate, check or free buffers: most of a module, and neither calls of kernels nor numbers."""
_BODIES = ("body", "orelse", "handlers", "finalbody")
"""Fields of `ast` nodes with nested statements; an exception handler has such fields too."""


class EmittedCall(Struct, frozen=True):
    """One call of a kernel."""

    kernel: str
    line: str
    """The source of the statement that makes the call."""
    arguments: tuple[tuple[str, ast.expr], ...]
    """The arguments with their keywords; a positional argument has an empty keyword."""


class Emitted(Struct, frozen=True):
    """A parsed module."""

    sources: dict[str, str]
    calls: dict[str, list[EmittedCall]]
    """The calls, keyed by kernel, in source order."""
    assigned: dict[str, ast.expr]
    """The last value that the module assigns to each name, without buffers that it allocates or views."""


def parse(text: str, kernels: Collection[str]) -> Emitted:
    """Parse a module that calls these kernels.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: the text is not Python, or is damaged.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in a kernel's text
        module = _parsed(text)
    calls: dict[str, list[EmittedCall]] = {}
    statements = list(_statements(module.body))
    for call in _calls(statements, text.split("\n"), kernels):
        calls.setdefault(call.kernel, []).append(call)
    return Emitted(dict(_sources(module)), calls, dict(_assigned(statements)))


def _parsed(text: str) -> ast.Module:
    """Parse a module without its idle statements, in a third of the time; lines keep their numbers.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: as for `parse`.
    """
    after = max(text.rfind("'''"), 0)  # where the last source of a kernel ends
    try:
        return ast.parse(text[:after] + _IDLE.sub("", text[after:]))
    except SyntaxError:  # damaged, or a block has nothing else
        return ast.parse(text)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.Expr | ast.Assign]:
    """Yield expressions and assignments in source order, including those in functions and blocks."""
    for statement in body:
        if isinstance(statement, ast.Expr | ast.Assign):
            yield statement
        for name in _BODIES:
            yield from _statements(getattr(statement, name, ()))


def _sources(module: ast.Module) -> Iterator[tuple[str, str]]:
    for statement in module.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function, args=arguments)):
                if dotted(function).startswith(_COMPILERS):
                    texts = [each.value for each in arguments if isinstance(each, ast.Constant)]
                    # The source is the last of the constants: before it stand the types of arguments (C++) or the
                    # kernel's name (Triton).
                    yield from ((name, text.strip("\n")) for text in texts[-1:] if isinstance(text, str))


def _assigned(statements: list[ast.Expr | ast.Assign]) -> Iterator[tuple[str, ast.expr]]:
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value


def _calls(
    statements: list[ast.Expr | ast.Assign], lines: list[str], kernels: Collection[str]
) -> Iterator[EmittedCall]:
    # Most statements only allocate or free memory; a search of the text is faster than a walk of each tree.
    named = re.compile("|".join(map(re.escape, kernels)))
    for statement in statements:
        line = "\n".join(lines[statement.lineno - 1 : statement.end_lineno]).strip()
        if named.search(line) is None:
            continue
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Call) and (name := _kernel(dotted(node.func), kernels)):
                yield EmittedCall(name, line, _arguments(node))
                break


def _kernel(called: str, kernels: Collection[str]) -> str | None:
    if called in kernels:
        return called
    name, _, method = called.rpartition(".")
    if name in kernels and method in ("run", name):
        return name
    return None


def _arguments(call: ast.Call) -> tuple[tuple[str, ast.expr], ...]:
    # The launcher takes the stream; it is no argument of the kernel.
    named = ((each.arg or "", each.value) for each in call.keywords if each.arg != "stream")
    return (*(("", each) for each in call.args), *named)


def dotted(node: ast.expr) -> str:
    """Return the text of a dotted name; empty for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return ".".join([node.id, *reversed(parts)])
    return ""


_LIBRARY = re.compile(
    r"\b(?:extern_kernels\.\w+|(?:torch\.ops\.)?aten\.\w+(?:\.\w+)?|torch\.ops\.(?!inductor\b)\w+\.\w+\.\w+)(?=\()"
)
"""Calls of library functions and operators (`extern_kernels.mm`, `aten.randint.low_out`) in a module (2.11 to 2.15)."""
_GENERATED = re.compile(r"^(\w+) = async_compile\.(\w+)\(", re.MULTILINE)
_ORIGINAL = re.compile(r"# Topologically Sorted Source Nodes: \[[^\]\n]*\], Original ATen: \[([^\]\n]*)\]")
_LANGUAGES = {"triton": "triton", "cpp_pybinding": "cpp", "cpp": "cpp"}


def with_torchs_kernels(session: Session) -> tuple[Session, tuple[str, ...]]:
    """Add the kernels that torch's own records have to a session without others.

    What cannot be parsed becomes a problem of the session; the texts of these problems are returned, too.

    Raises:
        RunError: the code is in a log that changed since it was read.
    """
    if session.kernels or not session.torch_code:
        return session, ()
    kernels: list[Kernel] = []
    problems: list[str] = []
    for each in session.torch_code:
        text = each.text
        where = f"graph {each.graph} ({each.stage})"
        stacks, unreadable = _stacks(each.stack_text)
        if unreadable:
            problems.append(f"the stack traces of the kernels of {where} cannot be parsed ({unreadable})")
        try:
            kernels += _kernels(each, text, stacks, session.environment.prefixes)
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            problems.append(f"the code of {where} cannot be parsed ({type(error).__name__}: {error})")
    code = tuple(OutputCode(each.graph, each.stage, each.body) for each in session.torch_code)
    # A doubt, because the run itself is whole: only what is known of its kernels is less.
    known = (*session.problems, *(Problem(each, is_doubt=True) for each in problems))
    return replace(session, kernels=tuple(kernels), code=code, problems=known), tuple(problems)


def _kernels(
    each: TorchCode, text: str, stacks: Mapping[str, list[str]], prefixes: Mapping[str, str]
) -> Iterator[Kernel]:
    """Yield the kernels of one graph part in the order of their first call."""
    languages = {name: _LANGUAGES.get(compiler, compiler) for name, compiler in _GENERATED.findall(text)}
    # The functions below `call` run and time the module, and call the same functions of a library.
    library = dict.fromkeys(_LIBRARY.findall(_body(text)))
    emitted = parse(text, [*languages, *library])
    ops = _ops(text, [*languages, *library])
    for name, calls in emitted.calls.items():
        lines = user_lines(stacks.get(name, ()), prefixes)
        yield Kernel(
            graph=each.graph,
            stage=each.stage,
            name=name,
            language=languages.get(name, "external"),
            ops=ops.get(name, ()),
            lines=lines,
            calls=len(calls),
            launches=tuple(_launch(call, ops.get(name, ()), lines) for call in calls),
            source=_source(emitted, name),
        )


def _body(text: str) -> str:
    """Return the part of a module that calls kernels; what follows measures the module."""
    begin = text.find("def call(")
    end = text.find("\ndef get_args(", begin)
    end = text.find("\ndef benchmark_compiled_module(", begin) if end < 0 else end
    return text[max(begin, 0) : end if end >= 0 else len(text)]


def _launch(call: EmittedCall, ops: tuple[str, ...], lines: tuple[str, ...]) -> Launch:
    return Launch(ops=ops, lines=lines, call=call.line)


def _source(emitted: Emitted, name: str) -> str:
    return emitted.sources.get(name, "")


def _ops(text: str, names: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the ops that the comment before a kernel's definition or call names."""
    found: dict[str, dict[str, None]] = {}
    # Longer names first, because `aten.randint` also ends at a word boundary inside of `aten.randint.low_out`.
    named = re.compile("|".join(re.escape(name) + r"\b" for name in sorted(names, key=len, reverse=True)) or r"(?!)")
    ops: list[str] = []
    for line in text.split("\n"):
        if comment := _ORIGINAL.search(line):
            ops = [each.strip() for each in comment[1].split(",") if each.strip()]
        elif not line.lstrip().startswith("#") and line.strip():
            if ops and (match := named.search(line)):
                found.setdefault(match[0], {}).update(dict.fromkeys(ops))
            # A comment is about the next line of code only.
            ops = []
    return {name: tuple(each) for name, each in found.items()}


def _stacks(text: str) -> tuple[dict[str, list[str]], str]:
    """Return the stack traces of each kernel, and why they cannot be read; torch adds a number to names (`name:1`)."""
    try:
        data = loaded(text) if text else {}
    except (ValueError, RecursionError) as error:
        return {}, f"{type(error).__name__}: {error}"
    if not isinstance(data, dict):
        return {}, f"they are {type(data).__name__}, not an object"
    found: dict[str, list[str]] = {}
    for name, traces in data.items():
        if isinstance(traces, list):
            known = found.setdefault(name.partition(":")[0], [])
            known += [each for each in traces if isinstance(each, str)]
    return found, ""
