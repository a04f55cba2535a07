"""What the arguments of a wrapped function are called in the function itself."""

import inspect
from typing import Any


def arguments(f_locals: dict[str, Any]) -> list[str]:
    """Name what `args` holds, in order, where a frame is torch's `inner(*args, **kwargs)` around a module or function.

    Source: `wrap_inline`, torch/_dynamo/external_utils.py (2.11 to 2.13), which calls its `fn` with them. Empty: it is
    another frame, or the names are not known.
    """
    import torch

    if set(f_locals) != {"fn", "args", "kwargs"}:
        return []
    called = f_locals["fn"]
    try:
        signature = inspect.signature(called.forward if isinstance(called, torch.nn.Module) else called)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in signature.parameters.items() if parameter.kind in kinds]
