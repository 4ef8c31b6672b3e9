"""Which scalar each word of an aggregate is: for the host, which reads memories whole."""

import numpy as np
from numpy.typing import NDArray

from quantdsl.errors import InternalError
from quantdsl.ir.layout import Layout, array_size
from quantdsl.ir.ops import ArrayType, StructType, Type

Names = NDArray[np.str_]


class Kinds:
    """The names of the scalars of a module's types; found once for each type."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._known: dict[Type, Names] = {}

    def of(self, type_: Type) -> Names:
        """[words] The name of the scalar that each word is; not to be written to.

        An order book has a hundred thousand words, so they are repeated and not listed.
        """
        if type_ not in self._known:
            self._known[type_] = self._listed(type_)
        return self._known[type_]

    def _listed(self, type_: Type) -> Names:
        if isinstance(type_, str):
            return np.array([type_])
        if isinstance(type_, StructType):
            fields = [self.of(slot.type) for slot in self.layout.slots(type_.name).values()]
            return np.concatenate(fields) if fields else np.empty(0, np.str_)
        if isinstance(type_, ArrayType):
            return np.tile(self.of(type_.elem), array_size(type_))
        raise InternalError(f"QD9101 layout: a buffer has no words of its own: {type_}")
