"""Write what ejecting, applying, tuning and editing a kernel package found as JSON.

Times are in seconds; null means not measured.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from ctrace.inspector.facts.kernels import Kernel
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.workshop.package_configurations import best_of
from ctrace.inspector.features.workshop.package_model import (
    AppliedPackage,
    CheckedPackage,
    KernelConfiguration,
    PackageTuning,
    SizeClass,
    TunedConfigurations,
)
from ctrace.inspector.findings.target_view import target_device
from ctrace.reports.dump.eject_writing import Written
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA, plain
from ctrace.reports.wording.kernel_packages import applied_line


def render_apply_json(found: AppliedPackage, target: str, package: str, diffs: Sequence[str] = ()) -> Document:
    """Return where a package was applied, whether results are equal, and times of a call of the model."""
    before = None if found.model is None else found.model.before
    after = None if found.model is None else found.model.after
    verdict = None if found.model is None else found.model.verdict or None
    return json_document(
        {
            "schema": SCHEMA,
            "target": target,
            "package": package,
            "summary": applied_line(found),
            "places": plain(found.places, ""),
            "equal": bool(found.equal),
            "largest_difference": found.largest,
            "first_difference": plain(found.wrong, ""),
            "before": before,
            "after": after,
            "verdict": verdict,
            "kernel": plain(found.kernel, ""),
            "not_measured": found.not_measured or None,
            "part": found.part,
            "device": found.device,
            "regions": plain(found.regions, ""),
            "compared": plain(found.compared, ""),
            "diffs": list(diffs),
            "notes": list(found.notes),
        }
    )


def render_tune_json(packages: Sequence[tuple[str, PackageTuning, bool]]) -> Document:
    """Return every configuration of each package: compiled, and timed where the GPU is there."""
    return json_document(
        {
            "schema": SCHEMA,
            "packages": [
                {
                    "package": folder,
                    "device": found.device,
                    "timed": found.is_timed,
                    "written": written,
                    "kernels": [_tuned_kernel(each) for each in found.kernels],
                }
                for folder, found, written in packages
            ],
        }
    )


def _tuned_kernel(each: TunedConfigurations) -> dict[str, Any]:
    return {
        "kernel": each.kernel,
        "current": plain(each.current, ""),
        "sizes": [
            {
                "name": one.name,
                "sizes": one.sizes,
                "best": plain(_best(one), ""),
                "tried": plain(one.tried, ""),
            }
            for one in each.classes
        ],
    }


def _best(one: SizeClass) -> KernelConfiguration | None:
    found = best_of(one)
    if found is None:
        return None
    return found.configuration


def render_edit_json(package: str, found: CheckedPackage, failed: str = "") -> Document:
    """Return one check of a package, as `ctrace kernels edit --once` makes it."""
    return json_document(
        {
            "schema": SCHEMA,
            "package": package,
            "device": found.device,
            "failed": failed or None,
            "equal": found.is_right,
            "left_out": 0,  # a check runs all cases, or is not correct
            "checks": plain(found.checks, ""),
            "code": {name: dict(stages) for name, stages in found.code.items()},
            "not_measured": found.untimed or None,
            "notes": list(found.notes),
        }
    )


class Ejected(Struct, frozen=True):
    """A kernel, and its package or why there is none."""

    kernel: Kernel
    written: Written | None
    why: str = ""
    instead: str = ""


def render_ejected_json(session: Session, found: Iterable[Ejected]) -> Document:
    """Return the packages and refusals as JSON."""
    return json_document(
        {
            "schema": SCHEMA,
            "target_gpu": plain(target_device(session), ""),
            "kernels": [_ejecting_kernel(each) for each in found],
            "problems": [problem.what for problem in session.problems],
        }
    )


def _ejecting_kernel(each: Ejected) -> dict[str, Any]:
    written = each.written
    op = written.package.name if written else None
    package = str(written.folder) if written else None
    files = list(written.files) if written else []
    return {
        "kernel": each.kernel.name,
        "graph": each.kernel.graph,
        "stage": str(each.kernel.stage),
        "lines": list(each.kernel.lines),
        "op": op,
        "package": package,
        "files": files,
        "refused": each.why or None,
        "instead": each.instead or None,
    }
