"""Handmade outcomes of `ctrace check` that every report renders."""

from datetime import date
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.facts.findings import Cost, Owner
from ctrace.inspector.facts.sites import Site, SiteKey, SiteKind
from ctrace.inspector.features.check.check_model import (
    CheckedJob,
    CheckedState,
    CheckOutcome,
    FindingKind,
    GateFinding,
    JobKey,
    Lock,
)
from ctrace.inspector.features.check.policy_model import Allow, CheckPolicy, Count, Limits

CWD = "/home/user/project"
POLICY = CheckPolicy(file=f"{CWD}/ctrace.yaml", limits=Limits({Count.BREAKS: 0}, 90.0))
LOCK = Lock(file=f"{CWD}/ctrace.lock")
ALLOW = Allow(
    "vendored, upstream issue 12", gb="GB0059", place="models/vendored.py::*", expires=date(2030, 1, 31), line=9
)

BRANCH = Site(
    SiteKey(SiteKind.BREAK, ("GB0170",), Owner.USER, "models/mask.py::Mask.forward", "if is_pad.any():"),
    file=f"{CWD}/models/mask.py",
    line=14,
    source="        if is_pad.any():  # padded?",
    span=(3, 15),
    reason="Python branches on `is_pad.any()`, which is known only when the graph has run.",
    fix="Compute both sides and select with torch.where, or use torch.cond.",
    cost=Cost(14, 1),
)
PRINT = Site(
    SiteKey(SiteKind.BREAK, ("GB0059",), Owner.USER, "models/text.py::Text.forward", "print('mean', x.mean())"),
    times=3,
    file=f"{CWD}/models/text.py",
    line=31,
    reason="`print('mean', x.mean())` writes to the screen while the model runs, which a graph cannot do.",
    fix="Take it out, or guard it with `if not torch.compiler.is_compiling()`.",
    cost=Cost(None, 1),
)
SKIP = Site(
    SiteKey(SiteKind.SKIP, ("loop",), Owner.USER, "models/text.py::slow", "def slow"),
    file=f"{CWD}/models/text.py",
    line=40,
    reason="The break is inside of a loop, where Dynamo cannot resume: the whole function stays in eager.",
    fix="Move the body of the loop into a function of its own.",
    cost=Cost(6),
)
RECOMPILE = Site(
    SiteKey(SiteKind.RECOMPILE, ("attribute_value",), Owner.USER, "models/text.py::Text.forward", "self.step"),
    file=f"{CWD}/models/text.py",
    line=29,
    reason="`self.step` was compiled in as a constant, and it changed.",
    fix="Keep it in a tensor.",
)
KEPT = Site(
    SiteKey(SiteKind.BREAK, ("GB0059",), Owner.LIBRARY, "models/vendored.py::log", "print(x)"),
    file=f"{CWD}/models/vendored.py",
    line=3,
    reason="`print(x)` writes to the screen while the model runs.",
    fix="Take it out.",
    cost=Cost(0, 1),
)


def state(job: JobKey, *sites: Site, graphs: int = 1, coverage: float | None = 100.0) -> CheckedState:
    """Make a job's result, with counts that match its sites."""
    kinds = [site.key.kind for site in sites]
    counts = {
        Count.BREAKS: kinds.count(SiteKind.BREAK),
        Count.SKIPPED: kinds.count(SiteKind.SKIP),
        Count.RECOMPILES: kinds.count(SiteKind.RECOMPILE),
        Count.GRAPHS: graphs,
    }
    return CheckedState(job, "2.13", counts, coverage, sites)


def holding(name: str, **parts: Any) -> CheckedJob:
    """Make a passing job."""
    job = JobKey(name)
    return replace(CheckedJob(job, state(job), graphs_before=1, seconds=1.25), **parts)


def outcome(*checked: CheckedJob, **parts: Any) -> CheckOutcome:
    """Make an outcome with a policy and a lock."""
    return replace(CheckOutcome(POLICY, LOCK, checked, torch="2.13", seconds=7.5), **parts)


def new_site(site: Site) -> GateFinding:
    """Make the finding of a new site."""
    what = f"+1 {' '.join(site.key.causes)} {site.key.place}"
    return GateFinding(FindingKind.NEW_SITE, what, site=site)


def only(*findings: GateFinding, name: str = "models/mask.py", **parts: Any) -> CheckOutcome:
    """Make an outcome of one job with only some findings."""
    job = JobKey(name)
    return outcome(replace(CheckedJob(job, None, findings, seconds=0.5), **parts))


_MASK, _MASK_WIDE, _TEXT = JobKey("models/mask.py"), JobKey("models/mask.py", "wide", "h100"), JobKey("models/text.py")
_MASKED = CheckedJob(
    _MASK, state(_MASK, BRANCH, graphs=3, coverage=71.4), (new_site(BRANCH),), graphs_before=2, seconds=2.2,
    run="20260101-120000-mask",
)  # fmt: skip
_TEXT_FINDINGS = (
    new_site(PRINT),
    new_site(SKIP),
    new_site(RECOMPILE),
    GateFinding(FindingKind.MORE, "+2 graphs", count=Count.GRAPHS, was=1.0, now=3.0),
    GateFinding(FindingKind.LIMIT, "coverage is below the limit", was=90.0, now=71.4, file="ctrace.yaml", line=7,
            todo="Move more of the model into the graph, or lower `coverage` in the policy."),
)  # fmt: skip
INSTALLED = replace(
    KEPT,
    key=replace(KEPT.key, place="einops/einops.py::rearrange", text="log.info(pattern)"),
    file="/venv/lib/python3.11/site-packages/einops/einops.py",
    line=520,
)
_MORE_TIMES = GateFinding(
    FindingKind.MORE_TIMES, "+2 times GB0059 models/text.py::Text.forward", site=PRINT, was=1.0, now=3.0
)

HOLDS = outcome(holding("models/a.py"), holding("models/b.py:net"))
WORSE = outcome(
    holding("models/a.py", allowed=((KEPT, ALLOW),)),
    _MASKED,
    replace(_MASKED, job=_MASK_WIDE, run=None),
    CheckedJob(
        _TEXT, state(_TEXT, PRINT, SKIP, RECOMPILE, graphs=3, coverage=None), _TEXT_FINDINGS, graphs_before=1,
        seconds=3.1, run="20260101-120001-text",
    ),
    notes=("The allow entry in line 12 expired on 2026-01-01: vendored.", "The allow entry in line 20 matches nothing any more."),
)  # fmt: skip
OFTEN = only(
    _MORE_TIMES, new_site(INSTALLED), name="models/text.py", state=state(_TEXT, PRINT, graphs=2), graphs_before=2
)
BETTER = outcome(
    holding("models/a.py", better=("-1 GB0059 models/a.py::A.forward", "3 graphs became 1"), graphs_before=3),
    holding("models/new.py", is_new=True, graphs_before=None),
)
UNTRUSTED = outcome(
    holding("models/a.py"),
    CheckedJob(JobKey("models/b.py"), state(JobKey("models/b.py"), graphs=0, coverage=0.0), (
        GateFinding(FindingKind.NOTHING_COMPILED, "no graph came of it", "See why with `ctrace explain models/b.py`."),
        GateFinding(FindingKind.DOUBT, "the log has 2 breaks, the counter 3"),
        GateFinding(FindingKind.NOT_MEASURED, "spills are limited, and were not measured", count=Count.SPILLS),
    ), seconds=0.8),
)  # fmt: skip
FAILED = outcome(
    holding("models/a.py"),
    CheckedJob(JobKey("models/b.py"), None, (GateFinding(FindingKind.FAILED, "ValueError: no weights", "Run it without torch.compile first.", file=f"{CWD}/models/b.py", line=8),), seconds=0.4, run="20260101-120002-b"),
    CheckedJob(JobKey("models/c.py"), None, (GateFinding(FindingKind.CRASHED, "the process died of SIGSEGV", "The last line was: loading"),), seconds=0.4),
    CheckedJob(JobKey("models/d.py"), None, (GateFinding(FindingKind.TIMEOUT, "not done after 600 s", "Raise `timeout` in the policy."),), seconds=600.2),
    CheckedJob(JobKey("pack.net:model"), None, (GateFinding(FindingKind.COMPILE_FAILED, "raises InductorError when compiled"),), seconds=1.0),
    _MASKED,
)  # fmt: skip
WRONG = outcome(
    holding("models/a.py"),
    CheckedJob(JobKey("models/gone.py"), None, (GateFinding(FindingKind.WRONG, "models/gone.py is not there", "Correct `models` in the policy.", file="ctrace.yaml", line=3),)),
    findings=(
        GateFinding(FindingKind.VANISHED, "models/old.py is in the lock, and the policy names it no more", "Run `ctrace check --update`.", file="ctrace.lock", line=5),
    ),
)  # fmt: skip
NO_SECTION = outcome(
    holding("models/a.py"),
    findings=(GateFinding(FindingKind.NO_SECTION, "the lock knows torch 2.11 and 2.12, not 2.13", "Run `ctrace check --update`.", file="ctrace.lock"),),
)  # fmt: skip
NOTHING = CheckOutcome(CheckPolicy(), Lock())
MANY = outcome(*(holding(f"models/m{number:02}.py") for number in range(25)), _MASKED)

EVIL = (
    "[red]x[/] \x1b[31mred\x1b[0m </script><script>alert(1)</script> \r\n\n::error::a|b\\|c `tick` ]]> &amp; @user #12 "
    "https://evil.example/x www.evil.example \ud800\udc80 \ufffe\uffff \x00\x0b\x85\u2028 \u202e 100%25 a:b,c=d 'q' \"q\""
)
_EVIL_SITE = Site(
    SiteKey(SiteKind.BREAK, ("GB0170", EVIL), Owner.USER, f"{EVIL}::{EVIL}", EVIL),
    file=f"{CWD}/models/{EVIL}.py", line=1, source=f"  {EVIL}", span=(2, 9), reason=EVIL, fix=EVIL,
)  # fmt: skip
_EVIL_FINDINGS = (
    GateFinding(FindingKind.NEW_SITE, EVIL, EVIL, site=_EVIL_SITE),
    GateFinding(FindingKind.DOUBT, "x" * 5000, "y y " * 2000, file=EVIL, line=2),
)
HOSTILE = outcome(
    CheckedJob(JobKey(EVIL, EVIL, EVIL), None, _EVIL_FINDINGS, ((_EVIL_SITE, Allow(EVIL)),), (EVIL,), run=EVIL),
    policy=CheckPolicy(file=f"{CWD}/{EVIL}.yaml"),
    findings=(GateFinding(FindingKind.WRONG, EVIL, EVIL, file=EVIL, line=1),),
    notes=(EVIL,),
    torch=EVIL,
)
ALL = {
    "holds": HOLDS, "worse": WORSE, "often": OFTEN, "better": BETTER, "untrusted": UNTRUSTED, "failed": FAILED,
    "wrong": WRONG, "no-section": NO_SECTION, "nothing": NOTHING, "many": MANY, "hostile": HOSTILE,
}  # fmt: skip
