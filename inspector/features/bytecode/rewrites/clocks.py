"""Explain torch's clock for loading a graph's inputs.

Source: _dynamo/codegen.py, `make_call_generated_code`. Torch 2.11 to 2.14 call the clock; torch 2.15 inserts compiled
templates (`_pregraph_marker_enter_template` and `_pregraph_marker_exit_template`), which call it only while a profiler
runs: tests, calls and jumps, in one run of instructions that ends by dropping the None that the template returns.
"""

from ctrace.inspector.features.bytecode.rewrites.pieces import PieceKind, Role
from ctrace.inspector.features.bytecode.rewrites.scene import Scene
from ctrace.inspector.features.bytecode.rewrites.stackforms import Attribute, Form, Value, is_path
from ctrace.inspector.features.bytecode.rewrites.stackwalk import Step

_CLOCKS = {"record_pregraph_bytecode_enter": "starts", "record_pregraph_bytecode_exit": "stops"}
_FLAG = "_is_profiler_enabled"
_BRANCHES = ("POP_JUMP", "JUMP_IF")


def clock(form: Form) -> str | None:
    """Return what a function does to torch's clock, `starts` or `stops`; None for other functions."""
    return _CLOCKS.get(form.name) if isinstance(form, Attribute) and is_path(form) else None


def claim_clocks(scene: Scene) -> None:
    """Claim each call of the clock, with the template around it, if it is in one."""
    for step, function, _ in scene.free_calls():
        does = clock(function.form)
        if does is None:
            continue
        template = _template(scene, step)
        if template is None:
            _claim_call(scene, step, Role(PieceKind.TIMER, f"{does} torch's clock for loading the inputs"))
            continue
        role = Role(PieceKind.TIMER, f"{does} torch's clock for loading the inputs, if a profiler runs")
        for at in template:
            scene.claims.claim(at, role)


def _claim_call(scene: Scene, step: Step, role: Role) -> None:
    scene.whole(step, role)
    if (taker := scene.taker(step)) is not None:
        scene.claims.claim(taker.index, role)


def _template(scene: Scene, call: Step) -> range | None:
    """Return the instructions of the template around a call; None if no branch of torch skips the call."""
    offsets = {each.offset: at for at, each in enumerate(scene.after.instructions)}
    for at in range(call.index - 1, -1, -1):
        step = scene.steps.get(at)
        if step is None or not step.instruction.opname.startswith(_BRANCHES) or not scene.claims.is_free(at):
            continue
        target = offsets.get(step.instruction.target or -1, -1)
        end = next((drop for drop in range(target, len(scene.after.instructions)) if _drops(scene, drop)), None)
        if target <= call.index or end is None:
            return None
        return range(_begin(scene, step.taken[-1]), end + 1)
    return None


def _drops(scene: Scene, at: int) -> bool:
    return scene.after.instructions[at].opname == "POP_TOP"


def _begin(scene: Scene, tested: Value) -> int:
    """Return the first instruction that computes what a template tests: the profiler's flag, or the running clock."""
    if isinstance(tested.form, Attribute) and tested.form.name == _FLAG:
        kept = scene.keeper(scene.after.instructions[tested.made].text, tested.made)
        return tested.made if kept is None else _first(kept.taken[0])
    return _first(tested)


def _first(value: Value) -> int:
    return min([value.made, *(_first(part) for part in value.parts if part.made >= 0)])
