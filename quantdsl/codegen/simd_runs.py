"""Calls of vector code that work on memory of each lane, with the statements around them.

Where lanes call what works on their State out of line, words go from locals to the State before
the call and back after it. Such neighbours are one run: done for all lanes at once, in vector forms
(simd_forms.py), or where few lanes are active for one after the other, in one loop.
"""

from abc import abstractmethod
from collections.abc import Iterator

from quantdsl.codegen.simd_forms import Wanted
from quantdsl.codegen.simd_memory import Spot
from quantdsl.codegen.simd_text import Value, VectorText
from quantdsl.codegen.simd_values import LaneStep, Local, ValueEmitter
from quantdsl.ir.ops import (
    Assign,
    BufferType,
    Call,
    Const,
    Do,
    Elem,
    Expr,
    Field,
    Func,
    Let,
    ScalarType,
    Stmt,
    StructOf,
    Var,
)
from quantdsl.ir.walk import base_name, expressions, nodes_in, operands, roots, statements
from quantdsl.passes.places import indices
from quantdsl.passes.uniform import Uniform


class RunEmitter(ValueEmitter):
    """Emits runs of statements around such calls."""

    def __init__(
        self, wanted: Wanted, decl: Func, text: VectorText, same: Uniform, mask: str | None
    ) -> None:
        super().__init__(wanted, decl, text, same, mask)
        buffers = (param for param in decl.params if isinstance(param.type, BufferType))
        self.given_buffers = {param.name for param in buffers if not param.inout}
        self.assigned: set[str] = set()
        self.passed: set[str] = set()
        """The aggregates that scalar code may see."""
        for stmt in statements(decl.body):
            if isinstance(stmt, Assign) and isinstance(stmt.place, Var):
                self.assigned.add(stmt.place.name)
            if isinstance(stmt, Let) and isinstance(stmt.value, Call):
                self.passed.add(stmt.name)
        for expr in expressions(decl.body):
            if isinstance(expr, Call):
                self.passed.update(filter(None, map(base_name, expr.args)))

    def bind(self, name: str, value: Value) -> None:
        """Name a scalar, in memory if the function assigns to it later."""
        if name in self.same.locals:
            value = Value(self.agreed(value), value.type, False)
        else:
            value = Value(self.vector(value), value.type, True)
        if name not in self.assigned:
            self.locals[name] = Local(value.text, value.type, value.varies)
            return
        address = self.text.alloca(self.type_of(value))
        self.text.do(f"store {self.type_of(value)} {value.text}, ptr {address}, align 8")
        self.locals[name] = Local(address, value.type, value.varies, True, self.mask)

    def runs(self, body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
        """Neighbouring statements around such a call that one loop over the lanes can do."""
        run: list[Stmt] = []
        written: set[str] = set()
        for stmt in body:
            if run and not (self.lane_wise(stmt) and self.independent(stmt, written)):
                yield from self.grouped(run)
                run, written = [], set()
            if self.lane_wise(stmt):
                run.append(stmt)
                written |= _writes(stmt)
            else:
                yield (stmt,)
        yield from self.grouped(run)

    def grouped(self, run: list[Stmt]) -> Iterator[tuple[Stmt, ...]]:
        """A run as one, if it calls, else statement by statement."""
        if any(isinstance(expr, Call) for stmt in run for expr in roots(stmt)):
            yield tuple(run)
        else:
            yield from ((stmt,) for stmt in run)

    def lane_wise(self, stmt: Stmt) -> bool:
        """Whether a statement is such a call, or moves words between locals and own memory."""
        match stmt:
            case Do(call):
                return self.calls_scalar(call)
            case Let(value=Call() as call, type=str()):
                return self.calls_scalar(call)
            case Assign(Var(name), Call() as call):
                return self.calls_scalar(call) and name in self.locals
            case Assign(Var(name), Field() | Elem() as place):
                return name in self.locals and self.fixed(place)
            case Assign(Field() | Elem() as place, value):
                return self.fixed(place) and self.steady(value)
        return False

    def independent(self, stmt: Stmt, written: set[str]) -> bool:
        """Whether what is evaluated before a run may be: the run itself changes none of it."""
        early: list[Expr] = []
        for root in roots(stmt):
            if isinstance(root, Call):
                params = self.signatures[root.func].decl.params
                for param, arg in zip(params, root.args, strict=True):
                    early += [arg] if isinstance(param.type, str) else indices(arg)
        if isinstance(stmt, Assign) and not isinstance(stmt.place, Var):
            early.append(stmt.value)
        reads = {node.name for expr in early for node in nodes_in(expr) if isinstance(node, Var)}
        return all(map(self.steady, early)) and not reads & written

    def steady(self, expr: Expr) -> bool:
        """Whether nothing that lanes do to their own memory changes what an expression gives."""
        if isinstance(expr, Call | StructOf):
            return False
        if isinstance(expr, Field | Elem) and base_name(expr) not in self.given_buffers:
            return False
        return all(map(self.steady, operands(expr)))

    def calls_scalar(self, call: Call) -> bool:
        return not (self.vectorises(call) or self.made_once(call))

    def fixed(self, place: Expr) -> bool:
        """Whether a place is a scalar at a constant offset in each lane's own memory."""
        base = place
        while isinstance(base, Field | Elem):
            if isinstance(base, Elem) and not isinstance(base.index, Const):
                return False
            base = base.base
        own = isinstance(base, Var) and self.spots[base.name].lane_step > 0
        return own and isinstance(self.place_type(place), str)

    def lane_run(self, run: tuple[Stmt, ...]) -> None:
        """Emit a run, and bind what it declares."""
        for name, local in self.results(run).items():
            self.bind(name, Value(self.loaded(local), local.type, True))

    def apart_call(self, call: Call) -> Value:
        result = self.signatures[call.func].decl.result
        assert isinstance(result, str)
        (local,) = self.results((Let("", result, call),)).values()
        return Value(self.loaded(local), result, True)

    def results(self, run: tuple[Stmt, ...]) -> dict[str, Local]:
        """Emit statements around calls on own memory: for all lanes at once, for few one by one.

        Gives what they declare.
        """
        text = self.text
        results = {name: self.blank(type_) for name, type_ in _given(run)}
        if not self.has_forms(run):
            self.lane_by_lane(run, results)
        elif self.mask is None:
            self.all_at_once(run, results)
        else:
            many, few, after = (text.label() for _ in range(3))
            text.branch(text.several(self.mask), many, few)
            for label, emit in ((many, self.all_at_once), (few, self.lane_by_lane)):
                text.start(label)
                with text.scope():
                    emit(run, results)
                text.jump(after)
            text.start(after)
        return results

    def has_forms(self, run: tuple[Stmt, ...]) -> bool:
        """Whether all that is called has a vector form, which is ever to be called."""
        if self.wanted.shared.word_step == 1 or self.text.few == self.text.lanes:
            return False
        calls = (expr for stmt in run for expr in roots(stmt) if isinstance(expr, Call))
        return not any(map(self.on_scalars, calls))

    def all_at_once(self, run: tuple[Stmt, ...], results: dict[str, Local]) -> None:
        """Emit statements for all active lanes; `results` are what calls give."""
        self.at_once = True
        for stmt in run:
            if isinstance(stmt, Let):
                assert stmt.value is not None
                self.assign_local(results[stmt.name], self.value(stmt.value))
            else:
                self.statement(stmt)
        self.at_once = False

    @abstractmethod
    def statement(self, stmt: Stmt) -> None:
        """Emit a statement in the active lanes."""

    @abstractmethod
    def assign_local(self, local: Local, value: Value) -> None:
        """Assign to a scalar local, in the active lanes."""

    def lane_by_lane(self, run: tuple[Stmt, ...], results: dict[str, Local]) -> None:
        """Emit statements as one loop over the active lanes; `results` are what calls give."""
        steps: list[LaneStep] = []
        for stmt in run:
            match stmt:
                case Do(call):
                    result = self.signatures[call.func].decl.result
                    steps.append(self.lane_call(call, None if result is None else self.spare(call)))
                case Let(name, value=Call() as call):
                    steps.append(self.lane_call(call, results[name]))
                case Assign(Var(name), Call() as call):
                    steps.append(self.lane_call(call, self.locals[name]))
                case Assign(Var(name), place):
                    steps.append(self.lane_load(self.locals[name], self.spot(place)))
                case Assign(place, value):
                    steps.append(self.lane_store(self.spot(place), self.value(value)))
        self.each_lane(steps)

    def spare(self, call: Call) -> Local | Spot:
        """Where a result goes that nobody reads."""
        result = self.signatures[call.func].decl.result
        assert result is not None
        return self.blank(result) if isinstance(result, str) else self.aggregate(result, True)

    def lane_load(self, local: Local, spot: Spot) -> LaneStep:
        put = self.into(local)

        def step(lane: str) -> None:
            address = self.memory.lane_address(spot, lane)
            put(lane, self.memory.load_scalar(address, local.type, spot.tag).text)

        return step

    def lane_store(self, spot: Spot, value: Value) -> LaneStep:
        scalar = self.by_lane(value)

        def step(lane: str) -> None:
            address = self.memory.lane_address(spot, lane)
            self.memory.store_scalar(address, scalar(lane), value.type, spot.tag)

        return step


def _given(run: tuple[Stmt, ...]) -> Iterator[tuple[str, ScalarType]]:
    """The scalars that statements declare."""
    for stmt in run:
        if isinstance(stmt, Let) and isinstance(stmt.type, str):
            yield stmt.name, stmt.type


def _writes(stmt: Stmt) -> set[str]:
    """The scalar local that a statement gives a value."""
    match stmt:
        case Let(name) | Assign(Var(name)):
            return {name}
    return set()
