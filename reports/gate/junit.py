"""Write the result of a check as JUnit XML: a suite for each model, a case for each job.

The report is valid for Ant's schema (windyroad/JUnit-Schema) and the Jenkins plugin's (junit-10.xsd): at most one
failure or error per case, no attributes such as `file`, notes in the suite.
"""

from collections.abc import Iterator
from datetime import datetime
from xml.etree import ElementTree

from ctrace.inspector.errors import Exit
from ctrace.inspector.features.check.check_model import EXITS, CheckedJob, CheckOutcome, GateFinding
from ctrace.inspector.grouping import grouped
from ctrace.reports import format as fmt
from ctrace.reports.escape import SafeText, markup_text, xml_letters
from ctrace.reports.gate.gate_findings import LONGEST, folded, headline, lines
from ctrace.reports.gate.gate_words import GRAVEST_FIRST, own_spot, policy_name, verdict

_Element = ElementTree.Element


def render_junit(outcome: CheckOutcome, when: datetime) -> SafeText:
    """Write the report, with a final newline; `when` is when the check began."""
    root = ElementTree.Element("testsuites")
    # Ant's schema allows neither a fraction of a second nor a time zone.
    stamp = when.strftime("%Y-%m-%dT%H:%M:%S")
    for number, (name, jobs) in enumerate(_by_model(outcome).items()):
        root.append(_suite(name, number, jobs, stamp, outcome))
    root.append(_policy_suite(len(root), stamp, outcome))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return markup_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n')


def _by_model(outcome: CheckOutcome) -> dict[str, list[CheckedJob]]:
    return grouped(outcome.checked, lambda one: one.job.model)


def _suite(name: str, number: int, jobs: list[CheckedJob], stamp: str, outcome: CheckOutcome) -> _Element:
    cases = [_job_case(one, outcome) for one in jobs]
    notes = [line for one in jobs for line in _notes(one)]
    return _made(name, number, cases, stamp, sum(one.seconds for one in jobs), outcome, notes)


def _policy_suite(number: int, stamp: str, outcome: CheckOutcome) -> _Element:
    """Write the findings about no model, and the notes."""
    name = policy_name(outcome) or "policy"
    if not outcome.findings:
        cases = [_case("policy and lock", name, 0.0, [], outcome)]
    else:
        cases = [_case(each.what, name, 0.0, [(each, None)], outcome) for each in outcome.findings]
    return _made(f"ctrace check: {name}", number, cases, stamp, 0.0, outcome, list(outcome.notes))


def _made(
    name: str, number: int, cases: list[_Element], stamp: str, seconds: float, outcome: CheckOutcome, notes: list[str]
) -> _Element:
    suite = ElementTree.Element("testsuite")
    known = {"name": _token(name), "package": "ctrace.check", "id": str(number), "timestamp": stamp}
    numbers = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
        "time": _time(seconds),
    }
    # Ant's schema requires a host, and the real one differs on each runner.
    for key, value in {**known, "hostname": "localhost", **numbers}.items():
        suite.set(key, value)
    # Ant's schema has these elements in this order: properties, cases, system-out, system-err.
    properties = ElementTree.SubElement(suite, "properties")
    if not outcome.inductor_guards:
        ElementTree.SubElement(properties, "property", name="verdict", value=xml_letters(verdict(outcome)))
    if outcome.torch:
        ElementTree.SubElement(properties, "property", name="torch", value=xml_letters(outcome.torch))
    suite.extend(cases)
    ElementTree.SubElement(suite, "system-out").text = xml_letters(
        "\n".join(fmt.one_line(line, LONGEST) for line in notes)
    )
    ElementTree.SubElement(suite, "system-err").text = ""
    return suite


def _job_case(one: CheckedJob, outcome: CheckOutcome) -> _Element:
    name = one.job.scenario if one.job.target == "cpu" else f"{one.job.scenario} on {one.job.target}"
    return _case(name, one.job.model, one.seconds, [(each, one) for each in folded(one.findings)], outcome)


def _case(
    name: str, classname: str, seconds: float, found: list[tuple[GateFinding, CheckedJob | None]], outcome: CheckOutcome
) -> _Element:
    """Write a case; with several findings, the gravest names the failure, and the text lists all."""
    case = ElementTree.Element("testcase", name=_token(name), classname=_token(classname), time=_time(seconds))
    if found:
        worst = min((finding for finding, _ in found), key=lambda each: GRAVEST_FIRST.index(EXITS[each.kind]))
        # A failure is a model that got worse, an error one that could not be judged.
        tag = "error"
        if EXITS[worst.kind] is Exit.WORSE:
            tag = "failure"
        more = fmt.framed(", and ", len(found) - 1 or None, " more")
        message = f"{fmt.one_line(headline(worst), LONGEST)}{more}"
        wrong = ElementTree.SubElement(case, tag, message=xml_letters(message), type=str(worst.kind))
        wrong.text = xml_letters("\n\n".join("\n".join(_lines(each, one, outcome)) for each, one in found))
    return case


def _lines(finding: GateFinding, one: CheckedJob | None, outcome: CheckOutcome) -> list[str]:
    return lines(finding, one, own_spot(finding, outcome))


def _notes(one: CheckedJob) -> Iterator[str]:
    """Yield a line for each allowed site and each improvement of a job."""
    for site, allow in one.allowed:
        yield f"{one.job}: allowed: {' '.join((*site.key.causes, site.key.place))}: {allow.reason}"
    yield from (f"{one.job}: better: {each}" for each in one.better)


def _token(text: str) -> str:
    """Write a name in one line, never empty."""
    return xml_letters(fmt.one_line(text, LONGEST)) or "unnamed"


def _time(seconds: float) -> str:
    return f"{seconds:.3f}"
