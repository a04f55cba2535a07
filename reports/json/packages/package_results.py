"""Write what applying, tuning and editing a kernel package found as JSON; times in seconds, null means not measured."""

import math
from collections.abc import Sequence
from typing import Any, Literal

from ctrace.inspector.features.workshop.kernel_packages.package_configurations import best_of
from ctrace.inspector.features.workshop.kernel_packages.package_model import (
    AppliedPackage,
    CheckedPackage,
    Compared,
    Element,
    ExpectedPlace,
    KernelConfiguration,
    PackageTuning,
    RegionCheck,
    Times,
    TriedConfiguration,
    TunedConfigurations,
)
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA
from ctrace.reports.wording.kernel_packages import applied_line


def render_apply_json(found: AppliedPackage, target: str, package: str, diffs: Sequence[str] = ()) -> Document:
    """Return where a package was applied, whether results are equal, and times of a call of the model."""
    return json_document(
        {
            "schema": SCHEMA,
            "target": target,
            "package": package,
            "summary": applied_line(found),
            "places": [_place(each) for each in found.places],
            "equal": bool(found.equal),
            "largest_difference": _number(found.largest),
            "first_difference": _element(found.wrong),
            "before": None if found.model is None else found.model.before,
            "after": None if found.model is None else found.model.after,
            "verdict": None if found.model is None else found.model.verdict or None,
            "kernel": _times(found.kernel),
            "not_measured": found.not_measured or None,
            "part": found.part,
            "device": found.device,
            "regions": [_region(each) for each in found.regions],
            "compared": [_compared(each) for each in found.compared],
            "diffs": list(diffs),
            "notes": list(found.notes),
        }
    )


def _place(each: ExpectedPlace) -> dict[str, Any]:
    return {
        "graph": each.graph,
        "line": each.line,
        "applied": each.applied,
        "why": each.why or None,
        "stage": each.stage,
        "operator": each.operator,
        "launch": _launch(each),
        "why_operator": each.operator_called,
    }


def _launch(each: ExpectedPlace) -> Literal["direct", "operator"] | None:
    if not each.applied:
        return None
    return "direct" if each.operator_called is None else "operator"


def _times(times: Times | None) -> dict[str, Any] | None:
    return None if times is None else {"before": times.before, "after": times.after}


def _region(each: RegionCheck) -> dict[str, Any]:
    return {
        "place": each.place,
        "ran": each.kernel,
        "equal": each.equal,
        "largest_difference": _number(each.largest),
        "first_difference": _element(each.wrong),
        "note": each.note or None,
    }


def _compared(each: Compared) -> dict[str, Any]:
    return {
        "scenario": each.scenario,
        "against": each.against,
        "equal": each.equal,
        "largest_difference": _number(each.largest),
        "first_difference": _element(each.wrong),
        "note": each.note or None,
    }


def _element(each: Element | None) -> dict[str, Any] | None:
    if each is None:
        return None
    return {
        "tensor": each.tensor,
        "at": list(each.at),
        "expected": _parsed(each.expected),
        "found": _parsed(each.found),
        "differing": each.differing,
        "of": each.of,
    }


def _parsed(text: str) -> float | None:
    try:
        return _number(float(text))
    except ValueError:
        return None


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


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
        "current": None if each.current is None else _configuration(each.current),
        "sizes": [
            {
                "name": one.name,
                "sizes": one.sizes,
                "best": None if (best := best_of(one)) is None else _configuration(best.configuration),
                "tried": [_tried(tried) for tried in one.tried],
            }
            for one in each.classes
        ],
    }


def _tried(each: TriedConfiguration) -> dict[str, Any]:
    return {
        **_configuration(each.configuration),
        "registers": each.registers,
        "spills": each.spills,
        "shared": each.shared,
        "occupancy": each.occupancy,
        "limited_by": each.limited_by or None,
        "seconds": each.seconds,
        "equal": each.equal,
        "failed": each.failed or None,
    }


def _configuration(each: KernelConfiguration) -> dict[str, Any]:
    return {"blocks": dict(each.blocks), "num_warps": each.warps, "num_stages": each.stages}


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
            "checks": [
                {
                    "operator": each.operator,
                    "sizes": each.sizes,
                    "inputs": each.inputs or None,
                    "configuration": each.configuration or None,
                    "ran": each.kernel,
                    "equal": each.equal,
                    "largest_difference": _number(each.largest),
                    "first_difference": _element(each.wrong),
                    "note": each.note or None,
                    "seconds": each.seconds,
                }
                for each in found.checks
            ],
            "code": {name: dict(stages) for name, stages in found.code.items()},
            "not_measured": found.untimed or None,
            "notes": list(found.notes),
        }
    )
