"""One line for each check of `ctrace kernels edit`."""

from ctrace.inspector.features.workshop.kernel_packages.package_model import CheckedPackage
from ctrace.inspector.features.workshop.kernel_packages.watching import speed
from ctrace.reports import format as fmt
from ctrace.reports.wording.kernel_packages import element, tolerance

_RAN = {"gpu": "", "cpu": "", "interpreter": " in Triton's interpreter"}


def check_line(before: CheckedPackage | None, found: CheckedPackage) -> str:
    """Say whether the kernel is right and whether it became faster."""
    wrong = [each for each in found.checks if not each.equal]
    if wrong:
        each = wrong[0]
        what = element(each.wrong) if each.wrong is not None else each.note or "the results differ"
        special = "".join(f", {fmt.one_line(text, 60)}" for text in (each.inputs, each.configuration) if text)
        verdict = "NOT CORRECT" if each.kernel == "unended" else "WRONG"
        return f"{verdict} for {fmt.one_line(each.sizes, 80)}{special}: {what}"
    if not found.checks:
        return "nothing was checked: the package defines no operator"
    ran = [each for each in found.checks if each.kernel != "fallback"]
    sizes = {each.sizes for each in ran}
    not_run = [each for each in found.checks if each.kernel == "fallback" and each.sizes not in sizes]
    notes = sorted({each.note for each in not_run if each.note})
    why = fmt.one_line("; ".join(notes), 200)
    if not ran:
        return f"NOT CHECKED, the kernel was not run: {why or 'reason not known'}"
    largest = max(each.largest or 0.0 for each in ran)
    left = fmt.count(len({each.sizes for each in not_run}), "other")
    rest = f", not run for {left} ({why})" if not_run else ""
    kinds = {each.kernel for each in ran}
    how = " on the GPU and in Triton's interpreter" if len(kinds) > 1 else _RAN[ran[0].kernel]
    configurations = {each.configuration for each in ran if each.configuration}
    tried = f"{fmt.count(len(configurations), 'configuration')}, " if configurations else ""
    compared = f"{fmt.count(len(sizes), 'size')}, {tried}{fmt.count(len(ran), 'set')} of inputs{how}{rest}"
    return f"correct within {tolerance(largest)} for {compared}, {speed(before, found)}"
