"""LLVM IR of kernels that have a schedule of their own, an instruction after the other."""


class Instructions:
    """Lines of a function's body; values are `%v1`, `%v2`, ..."""

    def __init__(self) -> None:
        self.body: list[str] = []
        self._names = 0

    def value(self, instruction: str) -> str:
        """The name of an instruction's result."""
        self._names += 1
        self.body.append(f"  %v{self._names} = {instruction}")
        return f"%v{self._names}"

    def do(self, line: str) -> None:
        """An instruction without a result."""
        self.body.append(f"  {line}")

    def label(self, name: str) -> None:
        """A block begins."""
        self.body.append(f"{name}:")

    def number(self, op: str, x: str, y: int | str) -> str:
        """Arithmetic on whole numbers."""
        return self.value(f"{op} i64 {x}, {y}")

    def sum(self, *terms: str) -> str:
        """The sum of whole numbers."""
        total = terms[0]
        for term in terms[1:]:
            total = self.number("add", total, term)
        return total

    def least(self, x: str, y: int) -> str:
        """The smaller of two whole numbers."""
        below = self.value(f"icmp slt i64 {x}, {y}")
        return self.value(f"select i1 {below}, i64 {x}, i64 {y}")

    def thread(self) -> str:
        """The number of a thread of its block."""
        return self.value(f"zext i32 {self.value('call i32 @quantdsl.thread()')} to i64")

    def of_grid(self) -> str:
        """The number of a block of the grid."""
        return self.value(f"zext i32 {self.value('call i32 @quantdsl.block()')} to i64")
