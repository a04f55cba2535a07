"""How results were compared with eager, in words."""

from collections.abc import Iterator

from ctrace.inspector.facts.scenario_facts import Comparison, Rule
from ctrace.inspector.facts.session import Session
from ctrace.reports import format as fmt


def basis(comparison: Comparison | None) -> str:
    """Say how results were compared with eager; empty if not recorded."""
    if comparison is None:
        return ""
    if comparison.rule is Rule.EXPERIMENT:
        return "proven by experiment"
    if comparison.rule is Rule.DIRECT:
        return "compared with eager directly"
    if comparison.rule is Rule.TOLERANCE:
        return f"compared by tolerance; no float64 reference: {fmt.one_line(comparison.no_reference or 'it overflows')}"
    if comparison.eager_error is None or comparison.compiled_error is None:
        return "compared with a float64 reference"
    return f"error against float64: eager {comparison.eager_error:.2g}, compiled {comparison.compiled_error:.2g}"


def rounded(session: Session) -> Iterator[str]:
    """Name the scenarios whose results differ from eager and are right nevertheless, and say why."""
    wrong = {danger.scenario for danger in session.dangers}
    for each in session.scenarios:
        if each.comparison is None or each.name in wrong:
            continue
        name = fmt.one_line(each.name, 30)
        if each.comparison.rule is Rule.REFERENCE:
            yield f"Results differ from eager only by rounding in {name} ({basis(each.comparison)})."
        elif each.comparison.rule is Rule.TOLERANCE:
            yield f"Results differ from eager within tolerance in {name} ({basis(each.comparison)})."
