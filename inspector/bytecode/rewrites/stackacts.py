"""Which opcode does what with the stack."""

from collections.abc import Callable

from ctrace.inspector.bytecode.rewrites import stacklists
from ctrace.inspector.bytecode.rewrites.stackmoves import Done, Move

ACTS: dict[str, Callable[[Move], Done]] = {
    "SWAP": Move.swap,
    "COPY": Move.copy,
    "TO_BOOL": Move.ask,
    "LOAD_CONST": Move.constant,
    "MAKE_FUNCTION": Move.make_function,
    "SET_FUNCTION_ATTRIBUTE": Move.set_function,
    "PUSH_NULL": Move.null,
    "LOAD_FAST": Move.load_local,
    "LOAD_FAST_CHECK": Move.load_local,
    "LOAD_FAST_LOAD_FAST": Move.load_local,
    "STORE_FAST": Move.store_local,
    "STORE_FAST_STORE_FAST": Move.store_local,
    "STORE_FAST_LOAD_FAST": Move.store_and_load,
    "LOAD_CLOSURE": Move.load_closure,
    "LOAD_DEREF": Move.load_closure,
    "LOAD_GLOBAL": Move.load_global,
    "LOAD_ATTR": Move.load_attribute,
    "LOAD_METHOD": Move.load_attribute,
    "BUILD_TUPLE": Move.build,
    "BUILD_SET": Move.build,
    "BUILD_MAP": Move.build,
    "BUILD_SLICE": Move.build,
    "BUILD_LIST": stacklists.build_list,
    "LIST_EXTEND": stacklists.extend,
    "LIST_APPEND": stacklists.extend,
    "BINARY_SUBSCR": stacklists.item,
    "BINARY_SLICE": stacklists.sliced,
    "STORE_SUBSCR": stacklists.store_item,
    "STORE_SLICE": stacklists.store_slice,
    "DELETE_SUBSCR": stacklists.delete_item,
    "UNPACK_SEQUENCE": Move.unpack,
    "KW_NAMES": Move.name_keywords,
    "CALL": Move.call,
    "CALL_KW": Move.call,
    "CALL_FUNCTION_EX": Move.call,
}
"""By opcode; any other is `Move.anything`."""
