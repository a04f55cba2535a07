"""Write what `ctrace accuracy` found as JSON; an error of null is NaN or infinities in other places."""

from msgspec.structs import asdict

from ctrace.inspector.features.accuracy.accuracy_facts import Accuracy
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.printer import SCHEMA


def render_accuracy_json(found: Accuracy, target: str) -> Document:
    """Return the culprits, the worst first, and what was not compared."""
    return json_document(
        {
            "schema": SCHEMA,
            "target": target,
            "equal": found.equal,
            "culprits": [asdict(each) for each in found.culprits],
            "first_nonfinite": None if found.first_nonfinite is None else asdict(found.first_nonfinite),
            "path": [asdict(each) for each in found.path],
            "promises": asdict(found.promises),
            "not_compared": [asdict(each) for each in found.not_compared],
            "result": found.result,
            "scenarios": list(found.scenarios),
            "compared": found.compared,
            "kernels": found.kernels,
            "graphs": found.graphs,
            "device": found.device,
            "compiled_runs": found.compiled_runs,
            "pieces": found.pieces,
        }
    )
