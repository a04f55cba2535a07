"""The state that the rules for inserted bytecode share."""

from collections.abc import Collection, Iterator, Mapping

from ctrace.inspector.facts.bytecode_facts import Rewritten
from ctrace.inspector.features.bytecode.rewrites.bytecode_pieces import Claims, PieceKind, PieceRole
from ctrace.inspector.features.bytecode.rewrites.resumes import called_resume
from ctrace.inspector.features.bytecode.rewrites.stackforms import Value
from ctrace.inspector.features.bytecode.rewrites.stackwalk import WalkStep, called_by

STARTS = frozenset(("RESUME", "MAKE_CELL", "COPY_FREE_VARS"))
_PACKS = "packs the values for the resume function into torch's lists"
_UNUSED = "drops torch's lists for a resume function that is not needed"
START = PieceRole(PieceKind.START, "starts as before")


class BytecodeScene:
    """A compilation's new code, followed step by step, with the roles assigned so far."""

    def __init__(
        self,
        compile_id: str,
        codes: Mapping[str, Rewritten],
        steps: Mapping[int, WalkStep],
        own: Mapping[int, int | None],
        graphs: Collection[str],
    ) -> None:
        """Initialize; `own` maps the new indexes of user instructions to their lines."""
        self.id, self.codes, self.steps, self.own = compile_id, codes, steps, own
        self.graph = (compile_id,) if compile_id in graphs else ()
        """Links to the graph; empty if the run has none, such as when its compilation failed."""
        self.before, self.after = codes[compile_id].before, codes[compile_id].after
        self.claims = Claims(self._own_roles())
        self.torchs = frozenset(self.after.variables) - frozenset(self.before.variables)
        """Local variables that torch added."""
        resumes = any(called_resume(function.form) is not None for _, function, _ in self.free_calls())
        self.frame = PieceRole(PieceKind.FRAME, _PACKS if resumes else _UNUSED)
        """One role for all of torch's lists."""
        self._takers = {id(value): step for step in steps.values() for value in step.taken}

    def _own_roles(self) -> dict[int, PieceRole]:
        """Return one role for all user instructions of a line."""
        lines = {line: PieceRole(PieceKind.OWN, f"{line_words(line)} runs unchanged") for line in self.own.values()}
        starts = {at for at in self.own if self.after.instructions[at].opname in STARTS}
        return {at: START if at in starts else lines[line] for at, line in self.own.items()}

    def free(self) -> Iterator[WalkStep]:
        """Yield the steps without a role."""
        return (step for _, step in sorted(self.steps.items()) if self.claims.is_free(step.index))

    def free_calls(self) -> Iterator[tuple[WalkStep, Value, tuple[Value, ...]]]:
        """Yield the calls without a role, with function and arguments."""
        for step in self.free():
            if (call := called_by(step)) is not None:
                yield (step, *call)

    def whole(self, step: WalkStep, role: PieceRole) -> None:
        """Claim an instruction and the producers of its operands."""
        self.claims.claim(step.index, role)
        for value in step.taken:
            self.claims.tree(value, role)

    def taker(self, step: WalkStep) -> WalkStep | None:
        """Yield the consumers of an instruction's value."""
        return self._takers.get(id(step.put[0])) if step.put else None

    def dropped(self, step: WalkStep) -> WalkStep | None:
        """Return the step that drops the result of a call."""
        taker = self.taker(step)
        if taker is not None and taker.instruction.opname == "POP_TOP":
            return taker
        return None

    def keeper(self, variable: str, before: int) -> WalkStep | None:
        """Return the last store to a variable before an instruction."""
        names = (at for at in range(before - 1, -1, -1) if self.after.instructions[at].text == variable)
        kept = (self.steps.get(at) for at in names if self.after.instructions[at].opname == "STORE_FAST")
        return next(kept, None)

    def loads(self, variable: str) -> list[int]:
        """Yield where a variable is read."""
        code = self.after.instructions
        return [at for at, each in enumerate(code) if each.opname == "LOAD_FAST" and each.text == variable]


def line_words(number: int | None) -> str:
    """Return the words for a user source line."""
    return "your code" if number is None else f"line {number}"
