"""One line for each check of `ctrace kernels edit`."""

from ctrace.inspector.kernel_packages.model import Checked
from ctrace.inspector.kernel_packages.watching import speed
from ctrace.reports import format as fmt
from ctrace.reports.wording.kernel_packages import element, tolerance

_RAN = {"gpu": "", "cpu": "", "interpreter": " in Triton's interpreter", "fallback": " (the kernel was not run)"}


def check_line(before: Checked | None, found: Checked) -> str:
    """Say whether the kernel is right and whether it became faster."""
    wrong = [each for each in found.checks if not each.equal]
    if wrong:
        each = wrong[0]
        what = element(each.wrong) if each.wrong is not None else each.note or "the results differ"
        return f"WRONG for {fmt.one_line(each.sizes, 80)}: {what}"
    if not found.checks:
        return "nothing was checked: the package defines no operator"
    largest = max(each.largest or 0.0 for each in found.checks)
    kinds = {each.kernel for each in found.checks}
    ran = _RAN[kinds.pop()] if len(kinds) == 1 else " (partly in Triton's interpreter)"
    notes = {each.note for each in found.checks if each.note and each.kernel == "fallback"}
    why = f" ({fmt.one_line('; '.join(sorted(notes)), 200)})" if notes else ""
    sizes = fmt.count(len(found.checks), "size")
    return f"correct within {tolerance(largest)} for {sizes}{ran}{why}, {speed(before, found)}"
