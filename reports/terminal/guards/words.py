"""What torch's kinds of guards check, in a few words (torch/csrc/dynamo/guards.cpp, _dynamo/guards.py, 2.13)."""

_WORDS = {
    "TENSOR_MATCH": "class, dtype, device, grad, sizes, strides of a tensor",
    "DIMENSION_DYNAMIC_MARKING_GUARD": "marks on the dimensions of a tensor",
    "TYPE_MATCH": "the type of an object",
    "ID_MATCH": "the very same object",
    "EQUALS_MATCH": "an equal value",
    "CONSTANT_MATCH": "an equal value",
    "LENGTH_CHECK": "how many items",
    "DICT_LENGTH": "how many items",
    "DICT_CONTAINS": "a key that is there, or is not",
    "SET_CONTAINS": "an item that is there, or is not",
    "NONE_MATCH": "None",
    "NOT_NONE": "something, not None",
    "TRUE_MATCH": "True",
    "FALSE_MATCH": "False",
    "NO_HASATTR": "an attribute that is not there",
    "OBJECT_ALIASING": "two names for one object",
    "NO_TENSOR_ALIASING": "tensors that are different objects",
    "STORAGE_OVERLAPPING": "tensors that share memory, or do not",
    "SYMBOLIC_SHAPE_GUARD": "relations between sizes",
    "LAMBDA_GUARD": "an expression in Python: slow",
    "GLOBAL_STATE": "grad mode, autocast, threads, default dtype and the like",
    "TORCH_FUNCTION_MODE_STACK": "modes that override torch functions",
    "DEFAULT_DEVICE": "the default device",
    "WEAKREF_ALIVE": "an object that still exists",
    "DICT_VERSION": "a dict that did not change",
    "MAPPING_KEYS_MATCH": "the keys of a mapping",
    "TUPLE_ITERATOR_LEN": "how far an iterator is",
    "RANGE_ITERATOR_MATCH": "how far an iterator is",
    "DISPATCH_KEY_SET_MATCH": "what kind of tensor it is to the dispatcher",
    "EMPTY_NN_MODULE_HOOKS_DICT": "hooks of modules: one added later is ignored by compiled code",
}


def kind_words(kind: str) -> str:
    """Say what a kind of guard checks; empty for one that is not known."""
    return _WORDS.get(kind, "")
