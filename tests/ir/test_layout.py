import pytest

from quantdsl.errors import InternalError
from quantdsl.ir.layout import Layout, Leaf, Slot, field
from quantdsl.ir.ops import F64_T, StructType
from tests.ir.samples import sample


def test_words_and_paths():
    module = sample()
    layout = Layout(module.structs)
    assert layout.words(StructType("State")) == 1 + (4 + 1) + 2 * 2
    assert field(module, "State", "total") == Slot(0, F64_T, 1)
    assert field(module, "State", "ring.1.xs[3]") == Slot(4, F64_T, 1)
    assert field(module, "State", "ring.1.n").offset_words == 5
    assert field(module, "State", "points[1].up") == Slot(9, "bool", 1)
    assert field(module, "State", "points").words == 4
    assert field(module, "State", "").words == 10


def test_leaves_cover_every_word_once():
    leaves = list(Layout(sample().structs).leaves(StructType("State")))
    assert leaves[1] == Leaf("ring.1.xs", 1, F64_T, 4)
    assert [word for leaf in leaves for word in range(leaf.words)][:2] == [0, 0]
    assert sum(leaf.words for leaf in leaves) == 10
    ends = [leaf.offset_words + leaf.words for leaf in leaves]
    assert [leaf.offset_words for leaf in leaves] == [0, *ends[:-1]]


@pytest.mark.parametrize(
    "path", ["nothing", "total.x", "points[2]", "points[-1]", "points[0", "ring.1[0]"]
)
def test_a_wrong_path_is_an_internal_error(path):
    with pytest.raises(InternalError, match="QD910"):
        field(sample(), "State", path)


def test_an_unknown_struct_is_an_internal_error():
    with pytest.raises(InternalError, match="no struct 'Stat'"):
        field(sample(), "Stat", "x")
