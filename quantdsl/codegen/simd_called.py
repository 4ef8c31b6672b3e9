"""A function that vector code calls, as an LLVM function that works on W lanes at once."""

from collections.abc import Iterator

from quantdsl.codegen.simd_forms import Shape, VectorForm, Wanted, parameters, result_type
from quantdsl.codegen.simd_function import VectorEmitter
from quantdsl.codegen.simd_memory import Spot
from quantdsl.codegen.simd_text import Value, VectorText
from quantdsl.codegen.simd_values import Local
from quantdsl.ir.ops import Elem, Expr, Func, Let, Stmt, Type, Var
from quantdsl.ir.walk import expressions, nodes_in
from quantdsl.passes.uniform import Uniform


class CalledEmitter(VectorEmitter):
    """Emits a vector form; all that it calls on memory of lanes it calls in their vector forms."""

    def __init__(
        self, wanted: Wanted, decl: Func, text: VectorText, same: Uniform, form: VectorForm
    ) -> None:
        super().__init__(wanted, decl, text, same, "%mask" if form.masked else None)
        self.form = form
        self.at_once = True
        self.copying = True  # orders are rare: a block that is run faster twice is not worth it
        self.made: Spot | None = None
        """Where an aggregate goes that the function makes."""

    def function(self, symbol: str) -> Iterator[str]:
        """The definition."""
        form, decl = self.form, self.decl
        if form.result is not None:
            assert decl.result is not None
            self.made = self.given("%result", decl.result, form.result)
        for index, (param, given) in enumerate(zip(decl.params, form.given, strict=True)):
            name = f"%p{index}"
            if isinstance(given, Shape):
                self.spots[param.name] = self.given(name, param.type, given)
            else:
                assert isinstance(param.type, str)
                self.bind(param.name, Value(name, param.type, given))
        linkage = "" if self.signatures[form.func].external else "internal "
        params = ", ".join(map(" ".join, parameters(self.text, decl, form)))
        head = f"define {linkage}{result_type(self.text, decl)} @{symbol}({params})"
        yield from self.definition(f"{head} {'#2' if decl.inline else '#4'}")

    def given(self, name: str, type_: Type, shape: Shape) -> Spot:
        """Where an aggregate lies that the caller names."""
        at = f"{name}.at" if shape.indexed else ""
        tag = self.elements_tag(type_)
        return Spot(name, 0, type_, tag, shape.lane_step, shape.word_step, at)

    def give(self, value: Expr) -> None:
        """Note what the function returns, in the active lanes."""
        if self.made is None:
            super().give(value)
        else:
            self.store_struct(self.made, value)

    def runs(self, body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
        """Each statement by itself; one that names an element of an array with all behind it."""
        for at, stmt in enumerate(body):
            if self.names_element(stmt, body[at + 1 :]):
                yield body[at:]
                return
            yield (stmt,)

    def names_element(self, stmt: Stmt, rest: tuple[Stmt, ...]) -> bool:
        """Whether a statement names the element of an array in which each lane goes on."""
        if not isinstance(stmt, Let) or stmt.type != "i64" or stmt.value is None:
            return False
        index = Var(stmt.name)
        lasting = stmt.name not in self.assigned and stmt.name not in self.same.locals
        return lasting and any(
            isinstance(node, Elem) and node.index == index
            for expr in expressions(rest)
            for node in nodes_in(expr)
        )

    def lane_run(self, run: tuple[Stmt, ...]) -> None:
        """What is done in an element, for one element after the other: most often all lanes go on
        in the same, and its words lie side by side."""
        text, (named, *rest) = self.text, run
        assert isinstance(named, Let)
        assert named.value is not None
        index = Value(self.vector(self.value(named.value)), "i64", True)
        left = self.new_mask(self.mask)
        turn, after = text.label(), text.label()
        text.jump(turn)
        text.start(turn)
        with text.scope():
            waiting = self.get_mask(left)
            one, here = self.first_element(index, waiting)
            self.set_mask(left, text.both(waiting, text.negated(here)))
            self.locals[named.name] = Local(one, "i64", False)
            self.inside(here, tuple(rest))
            text.branch(text.any(self.get_mask(left)), turn, after)
        text.start(after)

    def first_element(self, index: Value, waiting: str) -> tuple[str, str]:
        """The element of the first lane that waits, and the lanes that go on in it."""
        text = self.text
        one = self.extract(index, text.first_lane(waiting))
        same = text.pure(f"icmp eq {text.words} {index.text}, {text.spread('i64', one)}")
        return one, text.both(waiting, same)
