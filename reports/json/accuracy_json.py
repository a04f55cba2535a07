"""Write what `ctrace accuracy` found as JSON; an error of null is NaN or infinities in other places."""

from msgspec.structs import asdict

from ctrace.inspector.facts.accuracy_facts import Accuracy
from ctrace.reports.escape import Document, json_document
from ctrace.reports.json.explain_json import accuracy_data
from ctrace.reports.json.printer import SCHEMA


def render_accuracy_json(found: Accuracy, target: str) -> Document:
    """Return the culprits, the worst first, and what was not compared."""
    culprits = [asdict(each) for each in found.culprits]
    return json_document({"schema": SCHEMA, "target": target, "culprits": culprits, **accuracy_data(found)})
