"""Advice on what a model is called with: options, training steps and gradients.

Options are those of torch that trace what breaks, and those of a library that a statement depends on. Of training,
there are a whole step that is compiled, settings of an optimizer, and a model in evaluation mode that is called with
gradients on, although nothing runs backward.
"""

import ast
import re
from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene, package_of
from ctrace.inspector.diagnosis.naming import at
from ctrace.inspector.diagnosis.rules.value_rules import at_break, named
from ctrace.inspector.edits.line_edits import covers, line_edits, nodes_around
from ctrace.inspector.edits.torch_options import option_line
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind
from ctrace.inspector.facts.findings import Break
from ctrace.inspector.facts.trial import Trial

_SETTING = re.compile(r"torch\._dynamo\.config\.(?P<name>\w+) = True")
_WITH_RULES = frozenset(("capture_scalar_outputs", "capture_dynamic_output_shape_ops", "allow_rnn"))
"""Settings that other rules offer, with advice on the code."""
_NESTED = "nested_graph_breaks"


def torchs_options(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the settings that the advice tables name for a break; a trial decides."""
    found: dict[str, list[RootCause]] = {}
    for cause in scene.causes:
        for broken in scene.breaks(cause):
            match = _SETTING.fullmatch(broken.advice.switch)
            if match is not None and match["name"] not in _WITH_RULES:
                found.setdefault(match["name"], []).append(cause)
    for name, causes in found.items():
        switch = f"set {option_line(name)}"
        ids = tuple(dict.fromkeys(each.id for each in causes))
        text = f"{named(causes)} {switch}: Dynamo then traces it."
        yield Candidate(text, ids, Trial(settings=((name, True),)), worth=73, only_checked=True, short=switch)


def nested_breaks(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to resume inside of a called function that breaks, where a break leaves its callers in eager."""
    found = [cause for cause in scene.causes if not cause.expected and any(map(_is_nested, scene.breaks(cause)))]
    if found:
        switch = f"set {option_line(_NESTED)}"
        text = (
            f"{named(found)} {switch}, which is off by default: Dynamo then resumes inside of the function that "
            "breaks, and its callers stay compiled."
        )
        # Worth less than advice that removes the break, which stays with this option.
        trial = Trial(settings=((_NESTED, True),))
        yield Candidate(text, tuple(each.id for each in found), trial, worth=42, only_checked=True, short=switch)


def _is_nested(found: Break) -> bool:
    return any(len(path) > 1 for path in found.paths)


_STATE = frozenset(("training",))
"""Attributes that are not options."""


def optional_statements(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to turn off the option that a statement depends on; the trial removes the statement."""
    for cause in scene.causes:
        for each in scene.breaks(cause):
            text, package = scene.session.listings.get(each.file, ""), package_of(each.file)
            branch = _branch_at(text, each.line)
            # The user's own statement can be changed where it stands.
            if branch is None or not package or scene.is_users(each.file):
                continue
            option = _option(branch.test)
            edits = line_edits(each.file, text, [(branch.test, "False")])
            if option and edits:
                change = f"pass {option} to the model or its config"
                advice = (
                    f"{at_break(each)}: {change} if you do not need it: `{each.source}` of {package} then does not run."
                )
                trial = Trial(edits=edits)
                yield Candidate(advice, (cause.id,), trial, worth=74, only_checked=True, short=change)
                break


def _branch_at(text: str, line: int) -> ast.If | None:
    """Return the innermost `if` without `else` that decides whether a line runs."""
    branches = (node for node in nodes_around(text, line) if isinstance(node, ast.If))
    around = [node for node in branches if any(covers(each, line) for each in node.body)]
    if around and not around[-1].orelse:
        return around[-1]
    return None


def _option(test: ast.expr) -> str | None:
    """Return the option that makes a condition false, or None: `seed=None` for `self.seed is not None`."""
    match test:
        case ast.Compare(left=ast.Attribute() as read, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            if _is_kept(read):
                return f"{read.attr}=None"
            return None
        case ast.Attribute() as read:
            if _is_kept(read):
                return f"{read.attr}=False"
            return None
    return None


def _is_kept(read: ast.Attribute) -> bool:
    """Whether an expression is an attribute of `self` or of its config."""
    match read.value:
        case ast.Name(id="self" | "config") | ast.Attribute(value=ast.Name(id="self"), attr="config"):
            return read.attr not in _STATE
    return False


_OPTIMIZER_SETTING = re.compile(r"(?:.*\.)?param_groups\[(?:\d+|key \d+)\]\['(?P<name>\w+)'\]")
_FROM_GRADIENTS = (RootKind.BACKEND, RootKind.REQUIRES_GRAD, RootKind.GRAD_MODE, RootKind.DISPATCH_KEYS)
"""Kinds of causes that usually disappear without gradients; for other kinds, a trial decides."""
_MAY_BE = frozenset((Finding.BREAK, Finding.SKIP, Finding.RECOMPILE))


def whole_steps(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to compile the model in place of the step that trains it. Do not offer `model.compile()`: it captures no
    graph of a bare torch.nn.Sequential (torch 2.13).
    """
    for cause in scene.causes:
        if cause.kind is RootKind.TRAINING_STEP and not cause.expected:
            text = (
                f"{at(cause)}: compile the model (and the loss), not the whole training step: torch.compile(model) in "
                f"place of {cause.function or 'the step'}; leave backward() and the optimizer outside."
            )
            yield Candidate(text, (cause.id,), worth=85)


def optimizer_settings(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a tensor for a setting of an optimizer that a scheduler changes, unless it became dynamic."""
    for cause in scene.causes:
        named = [match["name"] for each in scene.guards(cause) if (match := _OPTIMIZER_SETTING.fullmatch(each.subject))]
        if named and not cause.expected:
            guard = next(each for each in scene.guards(cause) if _OPTIMIZER_SETTING.fullmatch(each.subject))
            # A scheduler's value, such as 0.03333333333333333, is not what the user wrote.
            value = "..."
            if guard.was and re.fullmatch(r"[\d.e+-]{1,8}", guard.was):
                value = guard.was
            text = (
                f"Pass {named[0]}=torch.tensor({value}) when you create the optimizer: torch specializes on "
                "Python numbers, so each change by a scheduler recompiles the step."
            )
            yield Candidate(text, (cause.id,), worth=70)


def unused_gradients(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer torch.no_grad() where it may remove breaks or recompilations; a trial decides."""
    unused = [each for each in scene.session.scenarios if each.unused_grad and each.training is False]
    possible = [cause for cause in scene.causes if _may_be(cause)]
    if not unused or not possible:
        return
    text = "Call the model under torch.no_grad(): it is in evaluation mode, and nothing uses the gradients."
    likely = [cause for cause in possible if cause.kind in _FROM_GRADIENTS]
    in_backward = [cause for cause in possible if any(each.function == "backward" for each in scene.breaks(cause))]
    # Dynamo alone does not show whether the backend still fails.
    needs_backend = any(cause.kind is RootKind.BACKEND for cause in likely)
    suspects = [*in_backward, *likely]
    worth = 90
    if not suspects:  # the trial may still remove any of them, but other changes are more likely to
        suspects, worth = possible, 55
    ids = tuple(cause.id for cause in suspects)  # a cause may be there twice
    yield Candidate(text, ids, Trial(grad="off"), worth=worth, only_checked=True, needs_backend=needs_backend)


def _may_be(cause: RootCause) -> bool:
    """Whether gradients may have produced a cause; they never produce a print."""
    return cause.kind is not RootKind.OUTPUT and bool({each.what for each in cause.symptoms} & _MAY_BE)
