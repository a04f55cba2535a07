"""Say in words what `ctrace accuracy` found wrong; see `facts/accuracy_facts.py`."""

from ctrace.inspector.facts.accuracy_facts import Accuracy, Culprit


def culprit_of(scenario: str, accuracy: Accuracy | None) -> Culprit | None:
    """Return the worst culprit of a scenario that float64 convicts and whose line is known."""
    if accuracy is not None:
        culprits = accuracy.culprits
    else:
        culprits = ()
    # Only float64 says which of the two sides is wrong; without it, either may be.
    known = (each for each in culprits if each.against == "float64" and each.line is not None)
    return next((each for each in known if each.scenario == scenario), None)


def culprit_sentence(culprit: Culprit) -> str:
    """Say what is wrong, and by how much, without the line: `h = torch.relu(h)` is wrong: off by 1."""
    if culprit.source:
        what = f"`{culprit.source}`"
    else:
        what = ", ".join(culprit.ops) or culprit.name
    verdict = "wrong" if culprit.against == "float64" else "other than in eager, and no less exact"
    return f"{what} is {verdict}: {off(culprit)}"


def off(culprit: Culprit) -> str:
    """Say how far a culprit is off, and eager beside it."""
    if culprit.against == "eager":
        return f"it differs from eager by {error_text(culprit.error)}"
    return f"off by {error_text(culprit.error)} where eager is off by {error_text(culprit.eager_error)}"


def error_text(error: float | None) -> str:
    """Write an error; NaN and infinities have none."""
    if error is None:
        return "NaN or infinity"
    return f"{error:.2g}"


def named_in(culprit: Culprit) -> str:
    """Say how far a culprit is off, in which kernel or stage, and why."""
    of = {"kernel": "in kernel ", "external": "in a call of "}.get(culprit.kind, "by ")
    why = ""
    if culprit.reason:
        why = f"; why: {culprit.reason}"
    return f"{off(culprit)[:1].upper()}{off(culprit)[1:]}, {of}{culprit.name} ({culprit.stage}){why}."


def remedied(culprit: Culprit) -> str:
    """Say what makes the error go away, and who can correct it."""
    issue = "ctrace repro --culprit writes a program for PyTorch's developers."
    if culprit.remedy is None:
        return f"Report it: {issue}"
    return f"{culprit.remedy} makes the error go away ({error_text(culprit.remedy_error)} is left); {issue}"
