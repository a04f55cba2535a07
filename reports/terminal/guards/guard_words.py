"""Say what each of torch's kinds of guards checks (torch/csrc/dynamo/guards.cpp, _dynamo/guards.py, 2.13 and 2.15)."""

_WORDS = {
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


def kind_words(kind: str) -> str:
    """Say what a kind of guard checks; empty for an unknown kind."""
    return _WORDS.get(kind, "")
