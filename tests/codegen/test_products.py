"""The schedule of matrix products: wide loads, chains in registers, and nothing that spills."""

import re

import pytest

from quantdsl.codegen import products
from quantdsl.codegen.cubin import link_ptx
from quantdsl.codegen.jit import optimised
from quantdsl.codegen.products import Tiles, product_launch
from quantdsl.codegen.ptx import ENTRY, Bounds, Ptx, target_of
from quantdsl.errors import UnavailableError
from quantdsl.passes.nests import Operand, Product


def product(n, k, m, *, single=True):
    a, b, c = Operand("a", k, 1, 0), Operand("b", 1, m, 0), Operand("c", m, 1, 0)
    return Product(n, m, k, a, b, c, single)


def ptx(wanted, tiles=None):
    target = target_of("sm_90")
    made = product_launch(wanted, gpu=True, tiles=tiles).text
    parsed, machine = optimised(f'target triple = "{target.triple}"\n{made}', target)
    return str(machine.emit_assembly(parsed))


@pytest.mark.parametrize("single", [True, False])
def test_a_turn_has_its_chains_in_registers_and_loads_16_bytes(single):
    text = ptx(product(1024, 256, 512, single=single))
    kind, wide, own, depth = ("f32", "v4.b32", 8, 8) if single else ("f64", "v2.b64", 4, 8)
    assert text.count(f"fma.rn.{kind}") == own * own * depth
    loads = [line.split()[0] for line in text.splitlines() if "ld." in line and "param" not in line]
    assert {one for one in loads if ".shared" in one} == {f"ld.shared.{wide}"}
    assert all(wide in one for one in loads if ".global" in one)
    assert text.count("bar.sync") + text.count("barrier.sync") == 2
    assert "ld.local" not in text
    assert "st.local" not in text


def test_an_odd_size_is_loaded_one_by_one_and_nothing_is_stored_beyond():
    text = ptx(product(131, 37, 51))
    assert re.search(r"ld\.global(\.nc)?\.b32", text)
    assert "ld.global.v4" not in text
    assert product_launch(product(131, 37, 51), gpu=True).grid == 2
    assert product_launch(product(128, 37, 128), gpu=True).grid == 1


def test_the_same_product_gives_the_same_text():
    assert ptx(product(64, 64, 64)) == ptx(product(64, 64, 64))


@pytest.mark.parametrize("single", [True, False])
def test_a_block_has_room_for_another_and_spills_nothing(single):
    text = ptx(product(4096, 4096, 4096, single=single)).replace(products.ENTRY, ENTRY)
    try:
        cubin = link_ptx(Ptx(text, ""), "sm_90", None, Bounds(256, 2))
    except UnavailableError as error:
        pytest.skip(str(error))
    assert cubin.spill_bytes == cubin.stack_bytes == 0
    assert cubin.registers <= 128


def test_tiles_follow_from_what_a_thread_has():
    assert product_launch(product(256, 64, 256), gpu=True, tiles=Tiles(4, 8, 1)).grid == 16
