"""Alias facts: which words of memory an access can never touch.

Every word belongs to one leaf, a (struct, field) pair, and accesses to two leaves never meet. So
a store into a ring buffer does not force the scalars of the state out of registers. An array of
scalars passed by itself may be any array field of that element type, so the leaves of such
fields are children of the array's own.
"""

from quantdsl.ir.layout import of_scalars
from quantdsl.ir.ops import ArrayType, BufferType, Type

ROOT = "!0"
Leaf = tuple[str, str]
"""(struct, field), or ("array" | "buffer", scalar type); no struct has those two names."""


class AliasTags:
    """Metadata for the leaves a module accesses, numbered in order of first use."""

    def __init__(self) -> None:
        self.lines = [f'{ROOT} = !{{!"quantdsl"}}']
        self.arrays: set[str] = set()
        """Tags of scalars in arrays: two of them may meet, since an array has two names."""
        self.written: dict[str, frozenset[str]] = {}
        """The tags that a function and its callees store to, by symbol, once it is emitted."""
        self._nodes: dict[Leaf, str] = {}
        self._tags: dict[Leaf, str] = {}

    def field(self, struct: str, field: str, type_: Type) -> str:
        """The tag for a scalar field, or for the elements of an array field; "" for structs."""
        if not of_scalars(type_):
            return ""
        leaf = (struct, field)
        if leaf in self._tags:
            return self._tags[leaf]
        parent = ROOT
        if isinstance(type_, ArrayType) and isinstance(type_.elem, str):
            parent = self._node(("array", type_.elem), ROOT)
            self.arrays.add(self._tag(leaf, parent))
            return self._tags[leaf]
        return self._tag(leaf, parent)

    def elements(self, type_: ArrayType | BufferType) -> str:
        """The tag for the scalar elements of a bare array or a buffer of the caller."""
        assert isinstance(type_.elem, str)
        leaf = ("buffer" if isinstance(type_, BufferType) else "array", type_.elem)
        if leaf not in self._tags:
            self.arrays.add(self._tag(leaf, ROOT))
        return self._tags[leaf]

    def _tag(self, leaf: Leaf, parent: str) -> str:
        node = self._node(leaf, parent)
        tag = f"!{len(self.lines)}"
        self.lines.append(f"{tag} = !{{{node}, {node}, i64 0}}")
        self._tags[leaf] = f", !tbaa {tag}"
        return self._tags[leaf]

    def _node(self, leaf: Leaf, parent: str) -> str:
        if leaf not in self._nodes:
            node = f"!{len(self.lines)}"
            # The number is the name: no name of a program stands in what LLVM parses.
            self.lines.append(f'{node} = !{{!"{node[1:]}", {parent}, i64 0}}')
            self._nodes[leaf] = node
        return self._nodes[leaf]
