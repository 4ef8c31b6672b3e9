"""What is said of many instruments is said once."""

from quantdsl.data.many import NAMED_MAX, fewer, grouped, named

MANY = [f"S{k}" for k in range(NAMED_MAX + 1)]


def test_few_names_are_all_told() -> None:
    assert named(MANY[:NAMED_MAX]) == "S0, S1, S2, S3, S4, S5, S6, S7"


def test_of_many_names_the_first_are_told_and_the_others_counted() -> None:
    assert named(MANY) == "S0, S1, S2 and 6 more"


def test_notes_alike_are_one_line_where_the_first_stood() -> None:
    lines = ["first", *(f"{name}: tick 0.01, lot 1" for name in MANY), "T: tick 1", "first"]
    assert grouped(lines) == ["first", "S0, S1, S2 and 6 more: tick 0.01, lot 1", "T: tick 1"]


def test_columns_of_one_file_name_it_once() -> None:
    lines = [f"w.csv, column {name}: 9 bars of 1d" for name in MANY]
    assert grouped(lines) == ["w.csv, columns S0, S1, S2 and 6 more: 9 bars of 1d"]
    of_two = [f"{name}.csv, column A: 9 bars of 1d" for name in MANY]
    first = ", ".join(f"{name}.csv, column A" for name in MANY[:3])
    assert grouped(of_two) == [f"{first} and 6 more: 9 bars of 1d"]


def test_few_notes_alike_stay_apart() -> None:
    lines = [f"{name}: tick 0.01" for name in MANY[:NAMED_MAX]]
    assert grouped(lines) == lines


def test_a_terminal_is_told_few_of_many_notes_on_files_and_all_on_money():
    bars = [f"{n}.csv: 1,2{n:02} bars of 1d from 2013-01-02 to 2018-02-07" for n in range(20)]
    bad = [f"{n}.csv: bad rows left out: {n} missing value" for n in range(4)]
    money = [f"S{n}: a position of {n} is open at the end" for n in range(20)]
    told = fewer([money[0], *bars, *bad, *money[1:]], "run.json")
    more = "and 17 more notes of what bars files hold, all in run.json"
    assert told == [money[0], *bars[:3], more, *bad, *money[1:]]
