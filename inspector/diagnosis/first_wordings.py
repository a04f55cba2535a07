"""Keep the ids of root causes when a title is reworded."""

FIRST_WORDINGS = {
    "Handwritten attention is not fused": "Attention written by hand is not fused",
    "Handwritten attention was replaced by code that computes wrong results": (
        "Attention written by hand was replaced by something else: the results are wrong"
    ),
    "Handwritten attention was replaced by scaled_dot_product_attention": (
        "Attention written by hand was taken for scaled_dot_product_attention"
    ),
    "Call to scaled_dot_product_attention has": "A call of scaled_dot_product_attention has",
    "A softmax between two matmuls, probably attention,": "A softmax between two products, as attention has it,",
    "A Triton kernel that uses something torch.compile does not support": (
        "Something of a Triton kernel that torch.compile does not take"
    ),
    "Arguments of triton.autotune that torch.compile does not support": (
        "Arguments of triton.autotune that torch.compile does not take"
    ),
    "num_ctas passed in the call": "num_ctas given at the call",
    "An argument that a Triton kernel cannot take in": "An argument that a Triton kernel cannot have in",
    "A Triton kernel that torch does not recognize": "A Triton kernel that torch does not take for one",
    "A NumPy function without a torch equivalent": "A numpy function without a torch twin",
    "A NumPy array that cannot become a tensor": "A numpy array that is no tensor",
    "A method of a NumPy array without a torch equivalent": "A method of a NumPy array without a torch twin",
    "bytes() of a value that is not a constant": "bytes() of something that is no constant",
    "ContextVar.get with a default that is not a constant": "ContextVar.get with a default that is no constant",
    "nn.Parameter of a value that is not a tensor": "nn.Parameter of something that is no tensor",
    "nested_tensor of an iterable that is not a list": "nested_tensor of something that is no list",
    "A __getattr__ that is not a function": "A __getattr__ that is no function",
    "super() and an attribute that is not a method": "super() and an attribute that is no method",
    "length_hint with a default that is not a constant": "length_hint with a default that is no constant",
    "A __length_hint__ that is not a constant": "A __length_hint__ that is no constant",
    "Isinstance of a tensor with a class that overrides the check": (
        "Isinstance of a tensor with a class that answers itself"
    ),
    "Attribute names that are not plain strings": "Attribute names that are no plain strings",
    "A while_loop whose condition is not a scalar bool": "A while_loop whose condition is no scalar bool",
    "A grid that is not a tuple": "A grid that is no tuple",
    "An autograd.Function whose forward or backward is not a function": (
        "An autograd.Function whose forward or backward is no function"
    ),
}
"""The old beginning for each new beginning of a title. Ids are derived from the old one, so they never change."""


def first_wording(title: str) -> str:
    """Return the old wording of a title, from which its id is derived."""
    return next((title.replace(now, first, 1) for now, first in FIRST_WORDINGS.items() if title.startswith(now)), title)
