"""The stack effect of each instruction of Python 3.11 to 3.13.

`dis.stack_effect` supports only the Python that runs it, and a log may come from another version.
"""

from bisect import bisect_left
from collections.abc import Callable

from ctrace.inspector.facts.bytecode_facts import Code, Instruction

Effect = tuple[int, int]
"""How many values an instruction pops and pushes."""

_ENDS = frozenset(("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"))
_ALWAYS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"))
_FIXED: dict[Effect, str] = {
    (0, 0): "NOP RESUME PRECALL KW_NAMES MAKE_CELL COPY_FREE_VARS DELETE_FAST DELETE_NAME DELETE_GLOBAL DELETE_DEREF "
    "SETUP_ANNOTATIONS JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT RETURN_CONST",
    (0, 1): "PUSH_NULL LOAD_CONST LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_CLOSURE LOAD_DEREF "
    "LOAD_CLASSDEREF LOAD_NAME LOAD_LOCALS LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR WITH_EXCEPT_START RETURN_GENERATOR",
    (0, 2): "LOAD_FAST_LOAD_FAST",
    (1, 0): "POP_TOP STORE_FAST STORE_NAME STORE_GLOBAL STORE_DEREF DELETE_ATTR RETURN_VALUE RERAISE POP_EXCEPT "
    "LIST_APPEND SET_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE IMPORT_STAR PRINT_EXPR "
    "POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE "
    "POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE "
    "POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE",
    (1, 1): "UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT GET_ITER GET_YIELD_FROM_ITER LIST_TO_TUPLE TO_BOOL "
    "CONVERT_VALUE FORMAT_SIMPLE CALL_INTRINSIC_1 STORE_FAST_LOAD_FAST LOAD_FROM_DICT_OR_DEREF "
    "LOAD_FROM_DICT_OR_GLOBALS CHECK_EXC_MATCH YIELD_VALUE GET_AWAITABLE",
    (1, 2): "GET_LEN MATCH_MAPPING MATCH_SEQUENCE IMPORT_FROM BEFORE_WITH PUSH_EXC_INFO LOAD_METHOD",
    (2, 0): "STORE_ATTR DELETE_SUBSCR MAP_ADD STORE_FAST_STORE_FAST",
    (2, 1): "BINARY_OP BINARY_SUBSCR COMPARE_OP IS_OP CONTAINS_OP FORMAT_WITH_SPEC CALL_INTRINSIC_2 IMPORT_NAME "
    "SET_FUNCTION_ATTRIBUTE END_SEND",
    (2, 2): "CHECK_EG_MATCH",
    (2, 3): "MATCH_KEYS",
    (3, 0): "STORE_SUBSCR",
    (3, 1): "BINARY_SLICE MATCH_CLASS",
    (4, 0): "STORE_SLICE",
}
_BY_NAME: dict[str, Effect] = {name: effect for effect, names in _FIXED.items() for name in names.split()}
_BY_ARG: dict[str, Callable[[int], Effect]] = {
    "BUILD_TUPLE": lambda arg: (arg, 1),
    "BUILD_LIST": lambda arg: (arg, 1),
    "BUILD_SET": lambda arg: (arg, 1),
    "BUILD_STRING": lambda arg: (arg, 1),
    "BUILD_SLICE": lambda arg: (arg, 1),
    "BUILD_MAP": lambda arg: (2 * arg, 1),
    "BUILD_CONST_KEY_MAP": lambda arg: (arg + 1, 1),
    "UNPACK_SEQUENCE": lambda arg: (1, arg),
    # The values before the starred name in the low byte, those behind it above, and the list.
    "UNPACK_EX": lambda arg: (1, (arg & 0xFF) + (arg >> 8) + 1),
    "FORMAT_VALUE": lambda arg: (2 if arg & 4 else 1, 1),
    # Besides the arguments, the function and its `self` or NULL; for CALL_KW also the tuple of keywords.
    "CALL": lambda arg: (arg + 2, 1),
    "CALL_KW": lambda arg: (arg + 3, 1),
    # The function, the NULL, the positional arguments, and keywords if the lowest bit is set.
    "CALL_FUNCTION_EX": lambda arg: (3 + (arg & 1), 1),
    "RAISE_VARARGS": lambda arg: (arg, 0),
    # The lowest bit asks for a NULL beside the value, for a call that follows.
    "LOAD_GLOBAL": lambda arg: (0, 1 + (arg & 1)),
    "LOAD_SUPER_ATTR": lambda arg: (3, 1 + (arg & 1)),
    "COPY": lambda arg: (arg, arg + 1),
    "SWAP": lambda arg: (arg, arg),
}
_LEAST = {"SWAP": 2, "COPY": 1}
_LARGEST = 100_000
"""Maximum number of values that an instruction may pop or push; only a damaged log has more."""
_SINCE_312 = (3, 12)
_SINCE_313 = (3, 13)


def version(code: Code) -> tuple[int, int]:
    """Return the Python version of a code object as (major, minor); (0, 0) if not known."""
    major, _, minor = code.python.partition(".")
    if major.isdecimal() and minor.isdecimal():
        return (int(major), int(minor))
    return (0, 0)


def effect(instruction: Instruction, python: tuple[int, int], *, jumps: bool = False) -> Effect | None:
    """Return an instruction's stack effect, or None if unknown. `jumps` selects the effect when it jumps."""
    name, arg = instruction.opname, instruction.arg or 0
    if not _LEAST.get(name, 0) <= arg <= _LARGEST and name in _BY_ARG:
        return None
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name in _BY_ARG:
        return _BY_ARG[name](arg)
    match name:
        case "LOAD_ATTR":
            # Before 3.12, LOAD_METHOD did what the lowest bit asks for.
            return 1, 1 + (arg & 1 if python >= _SINCE_312 else 0)
        case "MAKE_FUNCTION":
            # Before 3.13, each bit is a part on the stack, such as defaults; later, SET_FUNCTION_ATTRIBUTE adds them.
            return 1 + ((arg & 0xF).bit_count() if python < _SINCE_313 else 0), 1
        case "JUMP_IF_TRUE_OR_POP" | "JUMP_IF_FALSE_OR_POP":
            return (1, 1) if jumps else (1, 0)
        case "FOR_ITER":
            # Before 3.12, the jump at the end also pops the iterator.
            return (1, 0) if jumps and python < _SINCE_312 else (0, 1)
        case "SEND":
            return (2, 1) if jumps and python < _SINCE_312 else (2, 2)
        case "END_FOR":
            # 3.12 pops the iterator, too, for which 3.13 has a POP_TOP behind it.
            return (2, 0) if python < _SINCE_313 else (1, 0)
    return None


def goes_on(instruction: Instruction) -> bool:
    """Whether execution may continue with the next instruction."""
    return instruction.opname not in _ENDS and instruction.opname not in _ALWAYS


def index_at(code: Code, offset: int) -> int:
    """Return the index of the instruction at or after an offset: a jump may target an EXTENDED_ARG, which logs omit."""
    return bisect_left(code.instructions, offset, key=lambda each: each.offset)


def reachable(code: Code, start: int = 0) -> frozenset[int]:
    """Return the indices of all instructions that are reachable from the one at `start`."""
    found: set[int] = set()
    ahead = [start]
    while ahead:
        index = ahead.pop()
        # A damaged log may end in the middle of a function.
        if index in found or index >= len(code.instructions):
            continue
        found.add(index)
        instruction = code.instructions[index]
        if goes_on(instruction):
            ahead.append(index + 1)
        if instruction.target is not None:
            ahead.append(index_at(code, instruction.target))
        at = instruction.offset
        ahead += [index_at(code, handler.target) for handler in code.handlers if handler.start <= at < handler.end]
    return frozenset(found)
