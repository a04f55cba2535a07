"""Which options go together, and with which targets: mistakes that are found before a process is started."""

from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.inputs import parse_input, parse_vary
from ctrace.inspector.runs.order import Options
from ctrace.inspector.runs.target import ProgramTarget, Resolved


def check_options(resolved: Resolved, options: Options) -> None:
    """Refuse options that do not fit what is to be run.

    Raises:
        TargetError: one does not fit, or cannot be read.
    """
    if options.target is not None:
        check_target(build=options.build, backend=options.backend)
    if options.fast:
        _check_fast(resolved, options)
    allowed = Options(
        build=options.build, guard_cost=options.guard_cost, target=options.target, trace_only=options.trace_only
    )
    if isinstance(resolved, ProgramTarget) and options != allowed:
        what = f"{resolved.path} is a program: it makes its own inputs and calls torch.compile itself"
        raise TargetError(
            what, "leave out all options but --build, --target and --timeout, or name an object: file.py:name"
        )
    for text in options.inputs:
        parse_input(text)
    for text in options.vary:
        parse_vary(text)


def _check_fast(resolved: Resolved, options: Options) -> None:
    """Refuse what `--fast` leaves out.

    Raises:
        TargetError: something else was asked for that needs a backend, or a program chooses its backend itself.
    """
    others = {"--target": options.target is not None, "--build": options.build, "--backend": options.backend}
    given = next((name for name, is_given in others.items() if is_given), None)
    if given is not None:
        raise TargetError(
            f"--fast and {given} exclude each other", "leave one out: with --fast, graphs go through no backend"
        )
    if isinstance(resolved, ProgramTarget):
        what = f"{resolved.path or resolved.module} is a program: it calls torch.compile itself, with a backend"
        raise TargetError(what, "leave out --fast, or name an object: file.py:name")


def check_target(*, build: bool = False, backend: str | None = None) -> None:
    """Refuse what cannot go with `--target`.

    Raises:
        TargetError: something does not.
    """
    if build:
        todo = "leave one out: kernels for a GPU that need not be there are emitted, and cannot be run"
        raise TargetError("--target and --build exclude each other", todo)
    if backend not in (None, "inductor"):
        todo = "only Inductor emits kernels: leave one of them out"
        raise TargetError(f"--target and --backend {backend} exclude each other", todo)
