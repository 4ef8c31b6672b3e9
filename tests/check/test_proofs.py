"""What the checker takes for granted at a point is true there: presence, ranges, indices."""

import pytest

from quantdsl.check import check_source
from quantdsl.lang.source import Source

HEAD = """\
strategy S:
    bars 5m
    state last: float? = na
    state marks: array[float?, 4]
    state b: array[float, 8]
    state n = 1
    action clear():
        last = na
    action settle():
        if last is na:
            return
        n += 1
    on bar:
"""

LOST = {
    "in a loop": """\
        last = 1.0
        for _i in 0..<3:
            last = na
        n = int(last + 1.0)
""",
    "in a while": """\
        last = 1.0
        while n > 3 max 3:
            n -= 1
            last = na
        n = int(last + 1.0)
""",
    "in a case": """\
        last = 1.0
        match n:
            case 0:
                last = na
            case _:
                n = 2
        n = int(last + 1.0)
""",
    "in an action": """\
        last = 1.0
        clear()
        n = int(last + 1.0)
""",
    "known only inside an action that returned": """\
        settle()
        n = int(last + 1.0)
""",
    "before a break": """\
        if last is not na:
            for _i in 0..<3:
                if n > 2:
                    last = na
                    break
            n = int(last + 1.0)
""",
}


def found(body: str) -> list[str]:
    _, diagnostics = check_source(Source(HEAD + body, "s.qdsl"))
    return [d.code for d in diagnostics if d.severity == "error"]


@pytest.mark.parametrize("name", LOST)
def test_what_may_have_become_na_must_be_asked_again(name: str) -> None:
    assert found(LOST[name]) == ["QD0501"]


def test_what_stays_present_need_not_be_asked_again() -> None:
    assert found("        last = 1.0\n        settle()\n        n = int(last + 1.0)\n") == []
    body = """\
        if last is not na:
            for _i in 0..<3:
                n += 1
            n = int(last + 1.0)
"""
    assert found(body) == []


@pytest.mark.parametrize(
    "index",
    [
        "min(max(n, 0) * 2, 7)",
        "min(max(n, 0) + max(n, 0), 7)",
        "min(max(n, 0) + 1, 7)",
        "max(min(n, 5) - 3, 0)",
        "min(-min(n, 0), 7)",
    ],
)
def test_an_int_that_may_wrap_is_no_index(index: str) -> None:
    assert found(f"        b[{index}] = 1.0\n") == ["QD0601"]


def test_an_index_that_lacks_its_lower_end_alone_is_told_so() -> None:
    _, (told,) = check_source(Source(HEAD + "        b[min(n, 5)] = 1.0\n", "s.qdsl"))
    assert (told.note, told.help) == ("it may be below 0", "use clamp(i, 0, 7)")
    assert found("        b[clamp(min(n, 5), 0, 7)] = 1.0\n") == []


def test_na_as_an_int_is_0_whatever_bounds_the_float() -> None:
    body = "        let worst = -3\n        b[max(int(min(float(close), worst)) + 10, 0)] = 1.0\n"
    assert found(body) == ["QD0601"]
    assert found(body.replace("+ 10", "+ 7")) == []


def test_the_least_int_has_no_negative() -> None:
    assert found("        n = -(-9223372036854775807 - 1)\n") == []


@pytest.mark.parametrize("index", ["clamp(n - 3, 0, 7)", "n mod 8", "min(n mod 4 * 2 + 1, 7)"])
def test_an_int_that_cannot_wrap_is_an_index(index: str) -> None:
    assert found(f"        b[{index}] = 1.0\n") == []


def test_a_loop_that_changes_its_own_range_proves_nothing() -> None:
    body = """\
        for i in 0..<clamp(n, 0, 8):
            n = 0
            b[clamp(n, 0, 8) - 1 - i] = 1.0
"""
    assert found(body) == ["QD0602"]
    assert found(body.replace("            n = 0\n", "")) == []


EARLY = """\
indicator f(x: series[float]) -> float:
    if step mod 3 == 1:
        return 0.0
    let a = {late}
    return a + {last}
strategy S:
    bars 5m
    plot(f(close), "f")
"""


@pytest.mark.parametrize(
    ("late", "last"), [("x * 2.0", "a[1]"), ("ta.sma(x, 3)", "x"), ("x * 2.0", "x[1]")]
)
def test_what_keeps_state_stands_before_the_first_return(late: str, last: str) -> None:
    _, diagnostics = check_source(Source(EARLY.format(late=late, last=last), "s.qdsl"))
    codes = [d.code for d in diagnostics if d.severity == "error"]
    assert codes == ([] if last == "x[1]" else ["QD0305"])


def test_the_help_for_an_index_below_0_is_a_proof() -> None:
    text = (
        "indicator f(x: series[float], len: const int) -> float:\n"
        "    state buf: array[float, len] = 0\n"
        "    buf[clamp(len - 2, 0, len - 1)] = x\n"
        "    return buf[0]\n"
        'strategy S:\n    bars 5m\n    plot(f(close, 5), "f")\n'
    )
    checked, _ = check_source(Source(text, "s.qdsl"))
    assert checked is not None
