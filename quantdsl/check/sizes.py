"""Arithmetic on compile-time sizes, and the proof that one never exceeds another.

A size is an integer or a sum over size names (see ir.ops.Size). `at_most` decides on the linear
normal form; what it cannot decide is not proven. What bounds an int may also be the smaller of two
(`min`), as where a branch says more of a counter than its loop does; nothing has such a size.
"""

from quantdsl.ir.ops import Size, SizeName, SizeOp

Linear = tuple[dict[str, int], int]
WITHIN = {"N_VENUES": "N_INSTRUMENTS", "N_BOOKS": "N_INSTRUMENTS", "N_RESTING": "N_ORDERS"}
"""Sizes that never exceed another one. They may be 0: then nothing that reads them is linked."""


def add(left: Size, right: Size) -> Size:
    """left + right, folded where both are known."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if right == 0:
        return left
    if left == 0:
        return right
    if isinstance(right, int) and right < 0:
        return SizeOp("-", left, -right)
    return SizeOp("+", left, right)


def sub(left: Size, right: Size) -> Size:
    """left - right, folded where both are known."""
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    return left if right == 0 else SizeOp("-", left, right)


def larger(left: Size, right: Size) -> Size:
    """The larger of two sizes."""
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    if at_most(left, right):
        return right
    if at_most(right, left):
        return left
    return SizeOp("max", left, right)


def smaller(left: Size, right: Size) -> Size:
    """The smaller of two bounds."""
    if at_most(left, right):
        return left
    return right if at_most(right, left) else SizeOp("min", left, right)


def times(left: Size, right: Size) -> Size | None:
    """left * right where one of them is a small constant, otherwise None."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if isinstance(left, int):
        left, right = right, left
    if isinstance(right, int) and 0 < right <= 8:
        total = left
        for _ in range(right - 1):
            total = SizeOp("+", total, left)
        return total
    return None


def product(left: Size, right: Size) -> Size:
    """left * right, folded where both are known."""
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return left if right == 1 else right if left == 1 else SizeOp("*", left, right)


def pow2(size: Size) -> Size:
    """The smallest power of two that is at least `size`."""
    if isinstance(size, int):
        return 1 << max(size - 1, 0).bit_length()
    return SizeOp("pow2", size, 0)


def show(size: Size) -> str:
    """A size as it would be written: len - 1, 2 * len + 3, max(a, b)."""
    if isinstance(size, int):
        return str(size)
    if isinstance(size, SizeName):
        return size.name
    if size.op in ("max", "min"):
        return f"{size.op}({show(size.left)}, {show(size.right)})"
    if size.op == "*":
        return f"{_factor(size.left)} * {_factor(size.right)}"
    if size.op == "pow2":
        return f"the power of two from {show(size.left)} on"
    terms, constant = _linear(size)
    parts = [(count, name) for name, count in terms.items() if count]
    text = ""
    for count, name in parts:
        factor = "" if abs(count) == 1 else f"{abs(count)} * "
        text += (" - " if count < 0 else " + ") + factor + name
    if constant or not text:
        text += (" - " if constant < 0 else " + ") + str(abs(constant))
    return text.removeprefix(" + ").replace(" - ", "-", 1) if text[:3] == " - " else text[3:]


def _factor(size: Size) -> str:
    """A size as it stands in a product."""
    summed = isinstance(size, SizeOp) and size.op in "+-"
    return f"({show(size)})" if summed else show(size)


def _linear(size: Size) -> Linear:
    if isinstance(size, int):
        return {}, size
    if isinstance(size, SizeName):
        return {size.name: 1}, 0
    if size.op in "+-":
        sign = 1 if size.op == "+" else -1
        terms, constant = _linear(size.left)
        more, offset = _linear(size.right)
        merged = dict(terms)
        for name, count in more.items():
            merged[name] = merged.get(name, 0) + sign * count
        return merged, constant + sign * offset
    return {show(size): 1}, 0


def _spread(size: Size) -> Size:
    """A sum of a min or max as the min or max of sums: min(a, b) + c as min(a + c, b + c)."""
    if not isinstance(size, SizeOp) or size.op not in "+-":
        return size
    join = add if size.op == "+" else sub
    left, right = _spread(size.left), _spread(size.right)
    if isinstance(left, SizeOp) and left.op in ("min", "max"):
        return SizeOp(left.op, join(left.left, right), join(left.right, right))
    if isinstance(right, SizeOp) and right.op in ("min", "max") and size.op == "+":
        return SizeOp(right.op, add(left, right.left), add(left, right.right))
    return size


def at_most(left: Size, right: Size) -> bool:
    """True when left <= right is proven, for sizes that are all at least 1."""
    left = _spread(left)
    if isinstance(left, SizeOp) and left.op == "max":
        return at_most(left.left, right) and at_most(left.right, right)
    if isinstance(left, SizeOp) and left.op == "min":
        return at_most(left.left, right) or at_most(left.right, right)
    if isinstance(right, SizeOp) and right.op == "min":
        return at_most(left, right.left) and at_most(left, right.right)
    if (
        isinstance(right, SizeOp)
        and right.op == "max"
        and (at_most(left, right.left) or at_most(left, right.right))
    ):
        return True
    if isinstance(right, SizeOp) and right.op == "pow2" and at_most(left, right.left):
        return True
    terms, constant = _linear(sub(right, left))
    for part, whole in WITHIN.items():
        if terms.get(part, 0) < 0:
            terms[whole] = terms.get(whole, 0) + terms.pop(part)
    if any(count < 0 for count in terms.values()):
        return False
    return constant + sum(terms.values()) >= 0
