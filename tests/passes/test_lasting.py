"""A value that only one way through a turn gives is not there on the other."""

import pytest

from quantdsl.ir.ops import I64_T, Assign, Binary, If, Let, Var, i64
from quantdsl.passes.lasting import lasts_to_next

COUNTED = Assign(Var("count"), Binary("iadd", Var("count"), i64(1)))
GIVEN = (Assign(Var("noted"), i64(7)),)
READ = Let("read", I64_T, Var("noted"))
CHANGES = Binary("igt", Var("count"), i64(5))
STAYS = Binary("igt", Var("flags"), i64(5))


@pytest.mark.parametrize(
    ("body", "lasts"),
    [
        ((*GIVEN, READ), False),
        ((If(STAYS, GIVEN), READ), True),
        ((If(STAYS, (), GIVEN), READ), True),
        ((If(STAYS, GIVEN), If(STAYS, (READ,))), False),
        ((If(STAYS, GIVEN, GIVEN), READ), False),
        ((If(CHANGES, GIVEN), READ), True),
        ((If(CHANGES, (*GIVEN, READ)),), False),
        ((If(CHANGES, GIVEN, GIVEN), READ), False),
        ((If(CHANGES, GIVEN), If(CHANGES, (READ,))), True),
        ((If(CHANGES, (), GIVEN), If(STAYS, (READ,))), True),
    ],
)
def test_what_one_way_gives(body, lasts):
    assert ("noted" in lasts_to_next((COUNTED, *body), {"noted"})) == lasts
