"""Turns on rows on which nobody can act: the first of a run, while averages warm up.

A hundred lanes whose average takes a thousand bars make a thousand turns each that are not usual.
What such a turn does is little: it adds to a sum. So it keeps its words in locals from row to row,
takes branches that a usual turn gives up, and gives up what follows from acting.
"""

from collections.abc import Iterator, Mapping, Sequence, Set

from quantdsl.ir.ops import Assign, Break, For, If, Let, Stmt, Unary, Var
from quantdsl.ir.walk import statements
from quantdsl.passes.breaks import given_up, rare
from quantdsl.passes.flags import Flag, calls, conjuncts, flag_of, flags_hold, with_flags
from quantdsl.passes.fold import Folder
from quantdsl.passes.scopes import assigned_names, declared_names, reads_of_names, renamed
from quantdsl.passes.straight import breaks_when
from quantdsl.passes.turn import now

Block = tuple[Stmt, ...]


class Idle:
    """Such turns of a loop over rows, whose `words` of the state are held in locals before it."""

    def __init__(self, loop: For, words: Sequence[Let], usual: Mapping[Flag, bool]) -> None:
        self.words = words
        self.body = _idle(loop.body, usual)
        given = assigned_names(self.body)
        self.changed = [let for let in words if let.name in given]
        """The words that a turn gives another value."""

    def head(self) -> Iterator[Stmt]:
        """The words that turns read or change."""
        read, changed = reads_of_names(self.body), {let.name for let in self.changed}
        return (let for let in self.words if read[let.name] or let.name in changed)

    def turn(self) -> Block:
        """One turn; it breaks without having done anything where it is another."""
        names = {let.name for let in self.changed}
        done = (k for k, stmt in enumerate(self.body) if assigned_names((stmt,)) & names)
        if not any(map(_breaks, self.body[next(done, len(self.body)) :])):
            return self.body
        return (
            *(Let(now(let.name), let.type, Var(let.name)) for let in self.changed),
            *renamed(self.body, {name: now(name) for name in names}),
            *(Assign(Var(name), Var(now(name))) for name in sorted(names)),
        )


def _idle(body: Block, usual: Mapping[Flag, bool]) -> Block:
    """A turn with the flags of such rows, which it asks for first."""
    body = with_flags(body, {flag: on for flag, on in usual.items() if not on})
    at, flags = _acting(body, usual)
    before = given_up(with_flags(body[:at], flags), frozenset())
    before = Folder(assigned_names(before)).body(before)
    behind = with_flags(body[at:], flags)
    varying = assigned_names(before) | declared_names(before)
    made = (
        *(_refused(stmt) if _lasts(stmt, varying) else stmt for stmt in before),
        *map(_refused, behind),
    )
    if any(map(rare, made)):
        return (Break(),)
    test = next((k for k, stmt in enumerate(made) if not isinstance(stmt, Let)), len(made))
    other = If(Unary("not", flags_hold(flags)), (Break(),))
    return _asked_first((*made[:test], other, *made[test:]))


def _acting(body: Block, usual: Mapping[Flag, bool]) -> tuple[int, dict[Flag, bool]]:
    """The statement that first leads to a call by a flag, and the usual flags but that one.

    The end of the body where there is none.
    """
    for at, stmt in enumerate(body):
        if isinstance(stmt, If) and any(map(calls, statements(stmt.then))):
            asked = (flag_of(part) for part, holds in conjuncts(stmt.cond) if holds)
            flag = next((flag for flag in asked if flag is not None), None)
            if flag is not None:
                return at, {**usual, flag: False}
    return len(body), dict(usual)


def _lasts(stmt: Stmt, varying: Set[str]) -> bool:
    """Whether a statement is a branch that either all turns take or none."""
    if not isinstance(stmt, If) or stmt.otherwise:
        return False
    return not varying & reads_of_names((If(stmt.cond, ()),)).keys()


def _refused(stmt: Stmt) -> Stmt:
    """A statement that breaks where it would take a branch; the one that acts, if one does."""
    if not isinstance(stmt, If):
        return stmt
    refused = If(stmt.cond, (Break(),), tuple(map(_refused, stmt.otherwise)), stmt.line)
    if any(map(rare, statements(stmt.otherwise))):
        then = tuple(map(_refused, stmt.then))
        then = (Break(),) if any(map(rare, then)) else then
        refused = If(stmt.cond, then, (Break(),), stmt.line)
    cond = breaks_when(refused)
    return refused if cond is None else If(cond, (Break(),))


def _asked_first(body: Block) -> Block:
    """A turn with what ends it, and what that asks for, as far ahead as nothing else decides it."""
    made: list[Stmt] = []
    for stmt in body:
        at = len(made)
        if _pure(stmt):
            needs = reads_of_names((stmt,)).keys()
            while at and not needs & (
                assigned_names((made[at - 1],)) | declared_names((made[at - 1],))
            ):
                at -= 1
        made.insert(at, stmt)
    return tuple(made)


def _pure(stmt: Stmt) -> bool:
    """Whether a statement gives a local its only value, or only ends the turn."""
    if isinstance(stmt, If):
        return stmt.then == (Break(),) and not stmt.otherwise
    return isinstance(stmt, Let) and stmt.value is not None


def _breaks(stmt: Stmt) -> bool:
    return any(isinstance(one, Break) for one in statements((stmt,)))
