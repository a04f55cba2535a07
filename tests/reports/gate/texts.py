"""Arbitrary text, and an outcome with this text in every text field."""

from hypothesis import strategies as st

from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.sites import Site, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import CheckedJob, CheckOutcome, FindingKind, GateFinding, JobKey
from ctrace.inspector.features.check.policy_model import Allow
from tests.support.outcomes import POLICY, outcome

ANY = st.text(st.characters(), max_size=30) | st.text(
    "|\\`<>&@#:;,%/[]()\n\r\t\x1b\x00\ufffe\ud800 ab*_~!'\"", max_size=30
)
"""Half of the text consists of characters with a meaning in one of the formats."""


def full_of(text: str) -> CheckOutcome:
    """Put a text into every text field of an outcome."""
    key = SiteKey(SiteKind.BREAK, ("GB0170", text), Owner.USER, text, text)
    site = Site(key, file=f"/a/{text}", line=1, source=f"  {text}", span=(0, 3), reason=text, fix=text)
    findings = (GateFinding(FindingKind.NEW_SITE, text, text, site=site), GateFinding(FindingKind.DOUBT, text, text))
    one = CheckedJob(JobKey(text, text, text), None, findings, ((site, Allow(text)),), (text,), run=text)
    about_no_job = (GateFinding(FindingKind.WRONG, text, text, file=text or None, line=1),)
    return outcome(one, policy=POLICY, findings=about_no_job, notes=(text,), torch=text)
