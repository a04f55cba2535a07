"""Read kernels from the code and the stack traces that torch itself logs, for a log without ctrace's own records.

Torch logs the module of each graph part, and, with `inductor.config.trace.provenance_tracking_level`, the stack traces
behind each kernel. What it does not log (buffers, bytes, fused nodes) stays unknown.
"""

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from ctrace.inspector.facts.kernels import Kernel, Launch, OutputCode
from ctrace.inspector.facts.session import Problem, Session, TorchCode
from ctrace.inspector.findings.kernels.emitted_code import Emitted, EmittedCall, parse
from ctrace.inspector.log.fields import loaded
from ctrace.inspector.source.stacks import user_lines

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
    known = (*session.problems, *(Problem(each, is_doubt=True) for each in problems))
    return replace(session, kernels=tuple(kernels), code=code, problems=known), tuple(problems)


def _kernels(
    each: TorchCode, text: str, stacks: Mapping[str, list[str]], prefixes: Mapping[str, str]
) -> Iterator[Kernel]:
    """Yield the kernels of one graph part in the order of their first call."""
    languages = {name: _LANGUAGES.get(compiler, compiler) for name, compiler in _GENERATED.findall(text)}
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
    named = re.compile("|".join(re.escape(name) + r"\b" for name in sorted(names, key=len, reverse=True)) or r"(?!)")
    ops: list[str] = []
    for line in text.split("\n"):
        if comment := _ORIGINAL.search(line):
            ops = [each.strip() for each in comment[1].split(",") if each.strip()]
        elif not line.lstrip().startswith("#") and line.strip():
            if ops and (match := named.search(line)):
                found.setdefault(match[0], {}).update(dict.fromkeys(ops))
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
