"""Check that options fit together and fit the target, before a process starts."""

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.doors import require
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.input_specs import parse_assumption, parse_input, parse_vary
from ctrace.inspector.runs.target import ModelTarget, ProgramTarget, Resolved
from ctrace.inspector.runs.virtual_world import check_world


def check_options(resolved: Resolved, options: Options) -> None:
    """Refuse options that do not fit the target.

    Raises:
        TargetError: an option does not fit or cannot be parsed.
    """
    if options.target is not None:
        check_target(build=options.build, backend=options.backend)
    if options.fast:
        _check_fast(options)
    _check_fake(resolved, options)
    check_world(options.world, options.mesh, options.rank)
    if options.world is not None:
        _check_virtual(options)
    allowed = Options(
        build=options.build,
        guard_cost=options.guard_cost,
        target=options.target,
        trace_only=options.trace_only,
        inductor_guards=options.inductor_guards,
        fast=options.fast,
        caches=options.caches,
        world=options.world,
        mesh=options.mesh,
        rank=options.rank,
        assume=options.assume if options.world is not None else (),
    )
    if isinstance(resolved, ProgramTarget) and options != allowed:
        what = f"{resolved.path} is a program: it makes its own inputs and calls torch.compile itself"
        todo = "use only --build, --fast, --target, --world and --timeout with it, or name an object: file.py:name"
        raise TargetError(what, todo)
    for text in options.inputs:
        parse_input(text)
    for text in options.vary:
        parse_vary(text)


def _check_fast(options: Options) -> None:
    """Refuse options that `--fast` cannot serve.

    Raises:
        TargetError: another option needs a backend.
    """
    others = {"--target": options.target is not None, "--build": options.build, "--backend": options.backend}
    conflict = next((name for name, is_set in others.items() if is_set), None)
    if conflict is not None:
        raise TargetError(
            f"--fast and {conflict} exclude each other", "remove one: with --fast, graphs do not go through a backend"
        )


def _check_virtual(options: Options) -> None:
    """Refuse what needs the other ranks.

    Raises:
        TargetError: another option excludes `--world`, or the feature is not there.
    """
    require("cluster", "--world")
    if options.build:
        todo = "remove one: kernels of a rank without its peers compute with values that the peers never sent"
        raise TargetError("--world and --build exclude each other", todo)


def _check_fake(resolved: Resolved, options: Options) -> None:
    """Refuse what needs values, and assumptions about values that exist.

    Raises:
        TargetError: another option excludes `--fake`, or needs it.
    """
    is_folder = isinstance(resolved, ModelTarget) and resolved.path is not None and resolved.path.is_dir()
    if is_folder and options.build:
        todo = "remove --build, or write a model file that loads the weights"
        raise TargetError("hf: makes a model without its weights, so kernels cannot run", todo)
    if options.fake and options.build:
        todo = "remove one: without weights, there is nothing to run kernels on"
        raise TargetError("--fake and --build exclude each other", todo)
    if options.fake or options.layers is not None:
        require("fake", "--fake" if options.fake else "--layers")
    for text in options.assume:
        parse_assumption(text)


def check_target(*, build: bool = False, backend: str | None = None) -> None:
    """Refuse options that exclude `--target`.

    Raises:
        TargetError: an option excludes it, or the virtual GPU is not there.
    """
    require("gpus", "--target")
    if build:
        todo = "remove one: --target generates kernels for a GPU that may not be present, so they cannot run"
        raise TargetError("--target and --build exclude each other", todo)
    if backend not in (None, "inductor"):
        todo = "remove one: only Inductor generates kernels"
        raise TargetError(f"--target and --backend {backend} exclude each other", todo)
