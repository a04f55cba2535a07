"""The backends and modes that torch.compile knows in this process, and which of them record CUDA graphs.

Backends are those that are registered when the question is asked: the model's file may register its own.
"""

from collections.abc import Mapping
from typing import Any

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.runs.capture_request import is_inductor


def check_backend(name: str | None, *, option: str = "--backend") -> None:
    """Refuse a backend that neither torch nor the model's file registers; None is torch's default.

    Raises:
        TargetError: there is no such backend.
    """
    if name is not None:
        from torch._dynamo import list_backends

        # With the experimental ones and those for debugging, which torch leaves out of the list.
        _check(option, name, {str(each) for each in list_backends(exclude_tags=None)})


def check_mode(name: str | None, *, option: str = "--mode") -> None:
    """Refuse a mode that this torch does not know; None is torch's default.

    Raises:
        TargetError: there is no such mode.
    """
    if name is not None:
        from torch._inductor import list_mode_options

        _check(option, name, set(list_mode_options()))


def _check(option: str, name: str, known: set[str]) -> None:
    if name not in known:
        todo = did_you_mean(name, sorted(known), f"there are: {', '.join(sorted(known))}")
        raise TargetError(f"{option} {name}: not known to torch.compile", todo)


def settings_of_mode(mode: str | None) -> dict[str, Any]:
    """Return Inductor's settings of a mode that `check_mode` has accepted; None and `default` set nothing."""
    from torch._inductor import list_mode_options

    return dict(list_mode_options().get(mode or "default", {}))


def enables_cuda_graphs(backend: str | None, mode: str | None, options: Mapping[str, Any]) -> bool:
    """Whether compiled code records CUDA graphs on a GPU; `options` are settings of Inductor beside the mode's."""
    from torch._inductor import config

    # The `cudagraphs` backend records by itself, and has none of Inductor's settings.
    if not is_inductor(backend):
        return backend == "cudagraphs"
    # In this order, as torch.compile lets options override the mode.
    chosen = {**settings_of_mode(mode), **options}
    return bool(chosen.get("triton.cudagraphs", config.triton.cudagraphs))
