"""The typed IR: one small grammar of nodes, executed alike by every target.

    module  = consts structs functions
    func    = name params result sizes body          sizes: names of compile-time integers
    place   = Var | Field(place) | Elem(place, index) | Table(name)
    expr    = Const | SizeOf | place(scalar) | Unary | Binary | Fma | Select | Call | StructOf
    stmt    = Let | Assign | Do | If | For | While | Break | Continue | Return

Rules that the verifier holds:
- A scalar is BOOL, I64 or F64. An aggregate (array, struct, buffer) lives only in memory.
- Expressions are pure and total, so operands may be evaluated in any order and eagerly. A call
  of a function with an inout parameter is therefore legal only as the root of Let, Assign, Do or
  Return, and a struct value (Call or StructOf) only as the root of Let, Assign or Return.
- Assign computes its value first, then the indices of its place. The bounds of For and the `max`
  of While are computed once, before the first turn.
- A name is declared once in a function and seen from its declaration to the end of its block.
- An aggregate argument is a reference: two arguments may name the same object.
- Each path of a function with a result ends in Return.
- Every index is proven in range by the checker; no target tests it again (the interpreter does,
  and raises InternalError).
- Control flow is structured, each loop has a bound, and the call graph has no cycle.
- Names are made by the compiler (`x.3`): user text never becomes the name of anything emitted.

Meaning of the scalar operations, the same on every target:
- I64 wraps. `idiv` and `imod` round towards minus infinity; a divisor of 0 gives 0.
  Shifts take their count modulo 64; `lshr` is logical, `ashr` arithmetic. `umulh` is the high
  half of the unsigned 128-bit product.
- F64 is IEEE 754 binary64, round to nearest even, nothing contracted. NaN is one value: its sign
  and payload cannot be observed (`bits` of a NaN is 0x7FF8000000000000).
- `f32` rounds to the nearest IEEE 754 binary32, which an F64 holds exactly. Since 53 bits are more
  than twice 24 and 2, `f32(x + y)` of two such values is their sum rounded once, and so with the
  other three operations and the square root: an F32 needs no type of its own. Only a fused
  multiply-add has to be told (`Fma.single`): f32(fma(x, y, z)) would round twice.
- `fmin`/`fmax` are `a < b ? a : b` and `a > b ? a : b`.
- `f64_to_i64` truncates; NaN and what is not between -2^63 and 2^63 give 0.
- Comparisons with NaN are false, `ne` is true.
"""

import math
import struct
from typing import Final, Literal

import msgspec

BOOL_T: Final = "bool"
I64_T: Final = "i64"
F64_T: Final = "f64"
ScalarType = Literal["bool", "i64", "f64"]


class Node(msgspec.Struct, frozen=True, tag_field="k", tag=True, gc=False):
    pass


# ---- sizes: compile-time integers -----------------------------------------------------------


class SizeName(Node, frozen=True, tag="sn"):
    """A size parameter of the function or struct, or a size of the whole module (N_INSTRUMENTS)."""

    name: str


class SizeOp(Node, frozen=True, tag="so"):
    """`op` is + - * max, or pow2: the smallest power of two >= left (right is then 0)."""

    op: str
    left: "Size"
    right: "Size"


Size = int | SizeName | SizeOp

# ---- types ----------------------------------------------------------------------------------


class ArrayType(Node, frozen=True, tag="ta"):
    """A fixed number of elements, each a scalar or a struct."""

    elem: "Type"
    size: Size


class StructType(Node, frozen=True, tag="ts"):
    """A declared struct, its size parameters bound."""

    name: str
    sizes: tuple[Size, ...] = ()


class BufferType(Node, frozen=True, tag="tb"):
    """Memory of the caller holding structs or scalars; its length is the caller's affair.

    Only compiler-made entry functions index one. Its address is a multiple of `align` words.
    """

    elem: "Type"
    align: int = 1


Type = ScalarType | ArrayType | StructType | BufferType

# ---- expressions ----------------------------------------------------------------------------


class Const(Node, frozen=True, tag="c"):
    """A literal. F64 values are held as their bit pattern, so that the text form is exact."""

    type: ScalarType
    bits: int

    @property
    def value(self) -> int | float | bool:
        """The literal as a Python value."""
        if self.type == F64_T:
            return bits_to_f64(self.bits)
        return bool(self.bits) if self.type == BOOL_T else self.bits


class SizeOf(Node, frozen=True, tag="sz"):
    """A size as an I64 value."""

    size: Size


class Var(Node, frozen=True, tag="v"):
    """A local or parameter."""

    name: str


class Field(Node, frozen=True, tag="f"):
    """A field of a struct place."""

    base: "Place"
    name: str


class Elem(Node, frozen=True, tag="e"):
    """An element of an array or buffer place."""

    base: "Place"
    index: "Expr"


class Table(Node, frozen=True, tag="tab"):
    """A constant array of the module; only the base of Elem."""

    name: str


Place = Var | Field | Elem | Table


class Unary(Node, frozen=True, tag="u"):
    """`op` is a key of UNARY."""

    op: str
    x: "Expr"


class Binary(Node, frozen=True, tag="b"):
    """`op` is a key of BINARY."""

    op: str
    x: "Expr"
    y: "Expr"


class Fma(Node, frozen=True, tag="fma"):
    """x * y + z with one rounding: to binary32 where it is `single`, of values that it holds."""

    x: "Expr"
    y: "Expr"
    z: "Expr"
    single: bool = False


class Select(Node, frozen=True, tag="sel"):
    """cond ? x : y; both are evaluated."""

    cond: "Expr"
    x: "Expr"
    y: "Expr"


class Call(Node, frozen=True, tag="call"):
    """An argument for an inout or aggregate parameter is a place."""

    func: str
    args: tuple["Expr", ...]
    sizes: tuple[Size, ...] = ()


class StructOf(Node, frozen=True, tag="new"):
    """A struct value; the fields in declared order, all scalar."""

    type: StructType
    values: tuple["Expr", ...]


Expr = Const | SizeOf | Var | Field | Elem | Table | Unary | Binary | Fma | Select | Call | StructOf

# ---- statements -----------------------------------------------------------------------------


class Let(Node, frozen=True, tag="let"):
    """Declares a local. With `value` None the local is an aggregate or scalar set to zeros."""

    name: str
    type: Type
    value: Expr | None
    line: int = 0


class Assign(Node, frozen=True, tag="set"):
    """Stores a scalar, or copies a struct."""

    place: Place
    value: Expr
    line: int = 0


class Do(Node, frozen=True, tag="do"):
    """A call for its effects."""

    call: Call
    line: int = 0


class If(Node, frozen=True, tag="if"):
    cond: Expr
    then: tuple["Stmt", ...]
    otherwise: tuple["Stmt", ...] = ()
    line: int = 0


class For(Node, frozen=True, tag="for"):
    """`name` runs over lo, lo + 1, ... while < hi. It is read-only in the body."""

    name: str
    lo: Expr
    hi: Expr
    body: tuple["Stmt", ...]
    line: int = 0


class While(Node, frozen=True, tag="while"):
    """At most `max` turns; `cond` is tested before each."""

    cond: Expr
    max: Expr
    body: tuple["Stmt", ...]
    line: int = 0


class Break(Node, frozen=True, tag="break"):
    pass


class Continue(Node, frozen=True, tag="cont"):
    pass


class Return(Node, frozen=True, tag="ret"):
    value: Expr | None = None


Stmt = Let | Assign | Do | If | For | While | Break | Continue | Return

# ---- declarations ---------------------------------------------------------------------------


class FieldDecl(Node, frozen=True, tag="fd"):
    """`unit` is an F64 that the host gives: a whole number above 0 and below 2^53."""

    name: str
    type: Type
    unit: bool = False


class StructDecl(Node, frozen=True, tag="sd"):
    name: str
    fields: tuple[FieldDecl, ...]
    sizes: tuple[str, ...] = ()


class ParamDecl(Node, frozen=True, tag="pd"):
    """A scalar is passed by value; an aggregate by reference, written to only when `inout`.

    A scalar may not be inout.
    """

    name: str
    type: Type
    inout: bool = False


class Func(Node, frozen=True, tag="fn"):
    """`result` is None, a scalar or a struct. `inline` asks that no call of it remains.

    `cold`: it runs rarely and serves many programs, so machine code of it is shared by them.
    `wide`: its inner loops are to run in wide registers, where one lane's code has any.
    """

    name: str
    params: tuple[ParamDecl, ...]
    result: Type | None
    body: tuple[Stmt, ...]
    sizes: tuple[str, ...] = ()
    inline: bool = True
    cold: bool = False
    wide: bool = False


class TableDecl(Node, frozen=True, tag="td"):
    """A constant array; F64 entries as bit patterns.

    On a GPU it lies in memory like any other, or where it says so in `constant` memory, of which
    all threads of a warp get one word at once, and different ones one after the other.
    """

    name: str
    type: ScalarType
    bits: tuple[int, ...]
    constant: bool = False


class Given(Node, frozen=True, tag="gv"):
    """`paths` in the memory of entries are what the host may write, before or between calls.

    All other words begin as zeros and are written by `entries` alone; where a module lacks one of
    these, nothing is known of its memory. `values` are paths of words inside `paths`, and the bits
    that the host writes there before the first call. `blank` are paths of arrays of structs whose
    elements are written before they are read: what they begin with is of no account, and who reads
    them from outside finds nothing of use. `common` are paths at the memory's end that are the same
    in all lanes of a sweep, whatever each of them does.
    """

    paths: tuple[str, ...]
    entries: tuple[str, ...]
    values: tuple[tuple[str, int], ...] = ()
    blank: tuple[str, ...] = ()
    common: tuple[str, ...] = ()


class Module(Node, frozen=True, tag="mod"):
    """What one compile hands on: all that the entry functions reach.

    `sizes` binds the module-wide sizes. Before linking, functions and structs may still have
    size parameters; after it every size is an int and names are unique per instance.
    Where a module is split (codegen/units.py), the bodies of `imports` are not in it; they are
    the `exports` of the other part.
    `given` says what memory may hold that the entries did not write; None: anything.
    """

    structs: tuple[StructDecl, ...]
    tables: tuple[TableDecl, ...]
    funcs: tuple[Func, ...]
    entries: tuple[str, ...]
    sizes: tuple[tuple[str, int], ...] = ()
    imports: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    given: Given | None = None


class Op(msgspec.Struct, frozen=True, gc=False):
    """Operand type (both operands share it) and result type."""

    operand: ScalarType
    result: ScalarType


UNARY: dict[str, Op] = {
    "not": Op(BOOL_T, BOOL_T),
    "ineg": Op(I64_T, I64_T),
    "inot": Op(I64_T, I64_T),
    "fneg": Op(F64_T, F64_T),
    "fabs": Op(F64_T, F64_T),
    "sqrt": Op(F64_T, F64_T),
    "floor": Op(F64_T, F64_T),
    "ceil": Op(F64_T, F64_T),
    "trunc": Op(F64_T, F64_T),
    "rint": Op(F64_T, F64_T),  # to nearest, ties to even
    "f32": Op(F64_T, F64_T),  # the nearest binary32, ties to even
    "isnan": Op(F64_T, BOOL_T),
    "bits": Op(F64_T, I64_T),
    "from_bits": Op(I64_T, F64_T),
    "i64_to_f64": Op(I64_T, F64_T),
    "f64_to_i64": Op(F64_T, I64_T),
    "bool_to_i64": Op(BOOL_T, I64_T),
}

BINARY: dict[str, Op] = {
    **{
        op: Op(I64_T, I64_T)
        for op in (
            "iadd",
            "isub",
            "imul",
            "idiv",
            "imod",
            "imin",
            "imax",
            "iand",
            "ior",
            "ixor",
            "shl",
            "lshr",
            "ashr",
            "umulh",
        )
    },
    **{op: Op(F64_T, F64_T) for op in ("fadd", "fsub", "fmul", "fdiv", "fmin", "fmax")},
    **{"i" + op: Op(I64_T, BOOL_T) for op in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{"f" + op: Op(F64_T, BOOL_T) for op in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{op: Op(BOOL_T, BOOL_T) for op in ("and", "or", "xor")},
}

CANONICAL_NAN_BITS = 0x7FF8000000000000


def bits_to_f64(bits: int) -> float:
    """The double with this bit pattern."""
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def f64_to_bits(value: float) -> int:
    """The bit pattern of a double; every NaN gives the canonical one."""
    if math.isnan(value):
        return CANONICAL_NAN_BITS
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def f64(value: float) -> Const:
    """A float literal."""
    return Const(F64_T, f64_to_bits(value))


def i64(value: int) -> Const:
    """An integer literal; must lie in the range of i64."""
    return Const(I64_T, value)


def boolean(value: bool) -> Const:
    """A truth literal."""
    return Const(BOOL_T, int(value))


def as_word(value: Expr, type_: ScalarType) -> Expr:
    """A scalar as the 64 bits that memory holds of it."""
    if type_ == I64_T:
        return value
    return Unary("bits" if type_ == F64_T else "bool_to_i64", value)


def as_value(word: Expr, type_: ScalarType) -> Expr:
    """The scalar that 64 bits of memory hold."""
    if type_ == F64_T:
        return Unary("from_bits", word)
    return word if type_ == I64_T else Binary("ine", word, i64(0))
