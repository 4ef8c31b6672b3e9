"""What is said of many instruments is said once."""

from quantdsl.data.many import NAMED_MAX, grouped, named

MANY = [f"S{k}" for k in range(NAMED_MAX + 1)]


def test_few_names_are_all_told() -> None:
    assert named(MANY[:NAMED_MAX]) == "S0, S1, S2, S3, S4, S5, S6, S7"


def test_of_many_names_the_first_are_told_and_the_others_counted() -> None:
    assert named(MANY) == "S0, S1, S2 and 6 more"


def test_notes_alike_are_one_line_where_the_first_stood() -> None:
    lines = ["first", *(f"{name}: tick 0.01, lot 1" for name in MANY), "T: tick 1", "first"]
    assert grouped(lines) == ["first", "S0, S1, S2 and 6 more: tick 0.01, lot 1", "T: tick 1"]


def test_few_notes_alike_stay_apart() -> None:
    lines = [f"{name}: tick 0.01" for name in MANY[:NAMED_MAX]]
    assert grouped(lines) == lines
