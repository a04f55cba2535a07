"""Convert a code object to data and JSON; only the Python version that compiled it can read it."""

import dis
import sys
from types import CodeType
from typing import Any

from ctrace.inspector.facts.bytecode_facts import Code, Constant, Handler, Instruction

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...))
_EXTENDED = "EXTENDED_ARG"
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


def disassembled(code: CodeType) -> Code:
    """Convert a code object of this Python to data, including nested functions."""
    return Code(
        python=_VERSION,
        name=code.co_name,
        qualname=code.co_qualname,
        file=code.co_filename,
        line=code.co_firstlineno,
        flags=code.co_flags,
        arguments=code.co_argcount,
        positional_only=code.co_posonlyargcount,
        keyword_only=code.co_kwonlyargcount,
        variables=code.co_varnames,
        cells=code.co_cellvars,
        free=code.co_freevars,
        names=code.co_names,
        constants=tuple(map(_constant, code.co_consts)),
        instructions=tuple(
            _instruction(each, code.co_consts) for each in dis.get_instructions(code) if each.opname != _EXTENDED
        ),
        handlers=tuple(_handlers(code)),
    )


def _constant(value: Any) -> Constant:
    code = None
    if isinstance(value, CodeType):
        code = disassembled(value)
    return Constant(type(value).__name__, constant_text(value), code)


def constant_text(value: Any) -> str:
    """Return a plain constant as source, and any other one as its class name, because `repr` may run user code."""
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if kind is tuple:
        items = [constant_text(item) for item in value]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if kind is frozenset:
        if value:
            return f"frozenset({{{', '.join(sorted(map(constant_text, value)))}}})"
        return "frozenset()"
    name = ""
    if isinstance(value, CodeType):
        name = f" {value.co_name}"
    return f"<{kind.__name__}{name}>"


def _instruction(found: dis.Instruction, constants: tuple[Any, ...]) -> Instruction:
    line = target = None
    if found.positions is not None:
        line = found.positions.lineno
    if found.opcode in dis.hasconst:
        # Looked up here because dis in 3.11 does not resolve the constant of KW_NAMES.
        text = constant_text(constants[found.arg] if found.arg is not None else None)
    elif found.opcode in dis.hasjrel or found.opcode in dis.hasjabs:
        target = int(found.argval)
        # Formatted here because dis in 3.13 prints labels, such as `to L2`.
        text = f"to {found.argval}"
    else:
        text = found.argrepr
    return Instruction(
        offset=found.offset,
        opname=found.opname,
        arg=found.arg,
        text=text,
        line=line,
        target=target,
    )


def _handlers(code: CodeType) -> list[Handler]:
    # A private function of dis, the same from 3.11 to 3.14; there is no public parser for this table.
    parse = dis._parse_exception_table  # type: ignore[attr-defined]
    return [Handler(each.start, each.end, each.target, each.depth, bool(each.lasti)) for each in parse(code)]
