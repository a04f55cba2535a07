"""An import inside the function that fails: Dynamo gives the function up."""

import torch


@torch.compile(backend="eager")
def maybe_fast(x: torch.Tensor) -> torch.Tensor:
    try:
        import no_such_accelerator
    except ImportError:
        no_such_accelerator = None
    return x * 2 if no_such_accelerator is None else x


maybe_fast(torch.ones(3))
