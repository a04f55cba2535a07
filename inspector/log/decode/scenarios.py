"""Decode our own entries about scenarios; `dispatch.decode` lists the errors."""

from ctrace.inspector.log.events import core as ev
from ctrace.inspector.log.fields import Fields
from ctrace.inspector.model.comparison import Comparison, Rule
from ctrace.inspector.model.findings import Danger
from ctrace.inspector.model.scenarios import Outcome, ScenarioKind
from ctrace.inspector.model.session import Scenario
from ctrace.inspector.model.trial import Part


def scenario(data: Fields) -> ev.ScenarioDone:
    """Decode a scenario that was called."""
    scenario = Scenario(
        name=data.text("name"),
        calls=data.integer("calls"),
        kind=ScenarioKind(data.maybe_text("kind") or "given"),
        outcome=Outcome(data.maybe_text("outcome") or "done"),
        message=data.maybe_text("message") or "",
        compared=data.maybe_integer("compared"),
        not_compared=data.maybe_text("not_compared") or "",
        call_seconds=data.maybe_number("call_seconds"),
        training=data.flag("training") if data.has("training") else None,
        unused_grad=data.flag("unused_grad") if data.has("unused_grad") else None,
        comparison=_comparison(data),
    )
    return ev.ScenarioDone(scenario)


def parts(data: Fields) -> ev.PartsSeen:
    """Decode the modules of the target; several share the code of one `forward`.

    Raises:
        ValueError: a module has no code in the record.
    """
    codes = [(each.text("file"), each.integer("first"), each.integer("last")) for each in data.objects("codes")]
    found = []
    for each in data.objects("parts"):
        code = each.integer("code")
        if not 0 <= code < len(codes):
            raise ValueError(f"a part without code: {each.text('path')!r:.60}")
        found.append(Part(each.text("path"), each.text("kind"), *codes[code], each.integer("parameters")))
    return ev.PartsSeen(tuple(found))


def danger(data: Fields) -> ev.DangerFound:
    """Decode results that differ from eager ones."""
    danger = Danger(
        scenario=data.text("scenario"),
        call=data.integer("call"),
        kind=data.text("kind"),
        subject=data.text("subject"),
        difference=data.maybe_text("difference") or "",
        was=data.maybe_text("was"),
        now=data.maybe_text("now"),
        file=data.maybe_text("file"),
        line=data.maybe_integer("line"),
        proven=data.flag("proven"),
        comparison=_comparison(data),
    )
    return ev.DangerFound(danger)


def _comparison(data: Fields) -> Comparison | None:
    rule = data.maybe_text("rule")
    if not rule:  # a log of an older ctrace
        return None
    return Comparison(
        Rule(rule),
        data.maybe_number("eager_error"),
        data.maybe_number("compiled_error"),
        data.maybe_text("no_reference") or "",
    )
