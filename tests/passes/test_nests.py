"""What is seen of a kernel's loops: matrix products, whichever way their operands lie."""

import pytest

import quantdsl
from quantdsl.passes.nests import Operand, loop_of, numbers, product_of
from tests.backtest.tensor_programs import LINE, PRODUCT, TRANSPOSED

SIZES = {"n": 12, "k": 6, "m": 20}


def product(text, tmp_path):
    path = tmp_path / "kernel.qdsl"
    path.write_text(text)
    work = quantdsl.kernel(path).work(SIZES)
    loop = loop_of(work.func.body[-1])
    assert loop is not None
    return product_of(loop, numbers(work.func.body))


def test_a_product_has_rows_columns_and_a_chain(tmp_path):
    found = product(PRODUCT.format(type="f32"), tmp_path)
    assert (found.rows, found.columns, found.depth, found.single) == (12, 20, 6, True)
    assert found.a == Operand("p.a", 6, 1, 0)
    assert found.b == Operand("p.b", 1, 20, 0)
    assert found.c == Operand("p.c", 20, 1, 0)


def test_operands_may_be_transposed_and_the_chain_stand_outside(tmp_path):
    found = product(TRANSPOSED.format(type="float"), tmp_path)
    assert (found.rows, found.columns, found.depth, found.single) == (20, 12, 6, False)
    assert found.a == Operand("p.b", 6, 1, 0)
    assert found.b == Operand("p.a", 1, 12, 0)
    assert found.c == Operand("p.c", 12, 1, 0)


def test_a_part_of_a_matrix_begins_somewhere(tmp_path):
    text = PRODUCT.format(type="float").replace("0..<k:", "0..<(k - 2):")
    found = product(text.replace("a[i, l]", "a[i, l + 2]"), tmp_path)
    assert found.depth == 4
    assert found.a == Operand("p.a", 6, 1, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fma(a[i, l], b[l, j], c[i, j])", "fma(a[i, l], b[l, j], 1.0)"),
        ("fma(a[i, l], b[l, j], c[i, j])", "a[i, l] * b[l, j] + c[i, j]"),
        ("fma(a[i, l], b[l, j], c[i, j])", "fma(a[i, l], abs(b[l, j]), c[i, j])"),
        ("fma(a[i, l], b[l, j], c[i, j])", "fma(a[i, l], b[l, (j * j) mod m], c[i, j])"),
        ("0..<k:", "1..<k:"),
        ("0..<k:", "0..<min(i, k):"),
    ],
)
def test_what_is_a_little_else_is_none(old, new, tmp_path):
    text = PRODUCT.format(type="float").replace(old, new).replace("@kernel(matmul)\n", "")
    assert product(text, tmp_path) is None


def test_a_loop_over_one_counter_is_none(tmp_path):
    assert product(LINE.format(type="f32"), tmp_path) is None
