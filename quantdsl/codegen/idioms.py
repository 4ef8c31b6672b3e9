"""What takes several operations of the IR and one instruction of a CPU."""

from quantdsl.ir.ops import Binary, Const, Expr, Select, Unary, i64

EXPONENT_BIAS = 1023
"""Of a double: what `lowest_bit` gives for a word without bits."""


def lowest_bit(expr: Expr) -> Expr | None:
    """The word whose lowest bit `expr` is the index of, as `book.low_bit` finds it: the exponent
    of that bit alone as a float. Without a bit it is -EXPONENT_BIAS. None: it is no such thing."""
    match expr:
        case Binary("isub", Binary("iand", Binary("lshr", Unary("bits", power), at), mask), bias):
            if (at, mask, bias) != (i64(52), i64(2047), i64(EXPONENT_BIAS)):
                return None
            match power:
                case Unary("i64_to_f64", Binary("iand", word, Unary("ineg", same))) if word == same:
                    return word if not isinstance(word, Const) else None
    return None


def number_kept(expr: Select) -> Expr | None:
    """The float that `expr` makes a whole number of where its condition finds it small enough, so
    that the conversion need not ask for its range; None: it is no such thing."""
    match expr:
        case Select(
            Binary("flt", Unary("fabs", kept), Const(type="f64") as bound),
            Unary("f64_to_i64", number),
        ) if kept == number and bound.value <= 2.0**63:
            return number
    return None
