"""Reduce a program as long as it still shows the finding: delta debugging over its syntax tree, in passes.

The reducer knows nothing of torch: a question, `shows`, decides about every candidate.
"""

import ast
from collections.abc import Callable, Iterator, Sequence

from ctrace.inspector.features.fix.reduction.edits import (
    dead_code,
    inlining,
    parameters,
    reduce_expressions,
    reduce_literals,
    reduce_statements,
)
from ctrace.inspector.features.fix.reduction.reduced_program import Edit, Program

Shows = Callable[[Program], bool]
Say = Callable[[str], None]
_MOST_ROUNDS = 6


class SpentError(Exception):
    """The budget is spent."""


class Reducer:
    """One reduction; `best` is the smallest program so far that shows the finding."""

    def __init__(
        self,
        program: Program,
        shows: Shows,
        *,
        is_spent: Callable[[], bool] = lambda: False,
        say: Say = lambda _text: None,
    ) -> None:
        """Start from a program that shows the finding."""
        self.best = program
        self.tries = 0
        self.is_complete = False
        """Whether nothing was left to try."""
        self._shows = shows
        self._is_spent = is_spent
        self._say = say
        self._known: set[str] = {program.text}

    def run(self) -> Program:
        """Reduce until no edit is possible, or the budget is spent; return the smallest program."""
        try:
            for _ in range(_MOST_ROUNDS):
                before = self.best.text
                self._round()
                if self.best.text == before:
                    self.is_complete = True
                    break
        except SpentError:
            pass
        return self.best

    def _round(self) -> None:
        self._all_or_each(reduce_statements.strip)
        self._each(dead_code.unused)
        self._drop_statements()
        self._each(dead_code.unused)
        self._each(reduce_statements.unwrap)
        self._each(inlining.inline)
        self._each(dead_code.unused)
        self._drop_statements()
        self._each(parameters.drop)
        self._each(reduce_expressions.simplify)
        self._each(reduce_literals.shrink)
        self._each(inlining.inline)
        self._each(dead_code.unused)

    # Kinds of passes

    def _each(self, source: Callable[[ast.Module], Iterator[Edit]]) -> None:
        """Try the edits of a pass one after the other; after a success, go on behind the same number of edits."""
        position = 0
        while True:
            edits = list(source(self.best.tree))
            if position >= len(edits):
                return
            if not self._try(edits[position]):
                position += 1

    def _all_or_each(self, source: Callable[[ast.Module], Iterator[Edit]]) -> None:
        """Try all edits of a pass at once, then each."""

        def all_at_once(tree: ast.Module) -> bool:
            # Edits address nodes by number, so the last one goes first.
            return bool([edit for edit in reversed(list(source(tree))) if edit(tree)])

        self._try(all_at_once)
        self._each(source)

    def _drop_statements(self) -> None:
        """Drop statements, large pieces first, block by block from the outside to the inside."""
        number = 0
        while True:
            paths = reduce_statements.block_paths(self.best.tree)
            if number >= len(paths):
                return
            self._drop_in(paths[number])
            number += 1

    def _drop_in(self, path: reduce_statements.BlockPath) -> None:
        size = len(reduce_statements.droppable(self.best.tree, path))
        while size:
            end = len(reduce_statements.droppable(self.best.tree, path))
            while end > 0:
                free = reduce_statements.droppable(self.best.tree, path)
                piece = free[max(end - size, 0) : end]
                # From the end: what comes later uses what comes before.
                self._try(reduce_statements.dropping(path, piece))
                end -= size
            size //= 2

    def _try(self, edit: Edit) -> bool:
        made = self.best.edited(edit)
        if made is None or made.text in self._known or made.weight >= self.best.weight:
            return False
        if self._is_spent():
            raise SpentError
        self._known.add(made.text)
        self.tries += 1
        if not self._shows(made):
            return False
        self.best = made
        self._say(f"{made.line_count} lines, {self.tries} tries")
        return True


def first_shown(programs: Sequence[Program], shows: Shows) -> Program | None:
    """Return the smallest of several programs that shows the finding."""
    return next((each for each in sorted(programs, key=lambda each: each.weight) if shows(each)), None)
