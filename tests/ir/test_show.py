from quantdsl.ir.ops import SizeName, SizeOf, SizeOp
from quantdsl.ir.show import show, show_node
from tests.ir.samples import DECLS, sample


def test_text_of_a_module(snapshot):
    assert show(sample()) == snapshot


def test_text_before_linking(snapshot):
    assert "\n\n".join(map(show_node, DECLS[:3])) == snapshot
    size = SizeOp("pow2", SizeOp("max", SizeOp("+", SizeName("N"), 1), 8), 0)
    assert show_node(SizeOf(size)) == "sizeof(pow2(max((N + 1), 8)))"
