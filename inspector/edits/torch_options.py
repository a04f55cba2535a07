"""Lines of Python that set an option of torch, or that a program runs before the first call."""

import json

_CONFIG = "torch._dynamo.config"


def option_line(name: str, value: object = True) -> str:
    """Return the line that sets an option of Dynamo."""
    return f"{_CONFIG}.{name} = {value!r}"


def added_line(name: str, function: str) -> str:
    """Return the line that adds a function, with its module, to an option that is a set of functions."""
    # The object, not its name: Dynamo looks for it in the set with `is` (_dynamo/variables/builder.py, 2.13).
    return f"{_CONFIG}.{name}.add({function})"


def ignored_line(function: str) -> str:
    """Return the line that drops calls of a function, given as `module:qualname`, from compiled code."""
    return added_line("ignore_logging_functions", function.replace(":", "."))


def marked_line(tensor: str, dims: object) -> str:
    """Return the line that makes one dimension of a tensor dynamic, or a list of dimensions."""
    return f"torch._dynamo.mark_dynamic({tensor}, {dims})"


def called_line(method: str, word: str) -> str:
    """Return the line that calls a method of the model with a word, such as the name of an implementation."""
    return f"model.{method}({json.dumps(word)})"
