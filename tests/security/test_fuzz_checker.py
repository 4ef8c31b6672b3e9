"""C6 for the checker: a damaged strategy gives findings inside the file, soon, and nothing else."""

from functools import partial

import pytest

from quantdsl.check import check_source
from quantdsl.errors import QuantDSLError
from quantdsl.ir.verify import verify
from quantdsl.lang.render import render_all
from quantdsl.lang.source import Source
from tests.counting import CALLS_A_SECOND, calls
from tests.security.mutants import mutant, seeds

ROUNDS = 8
EACH = 40
SEEDS = seeds()


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_a_damaged_strategy_gives_findings_only(round_):
    for number in range(round_ * EACH, (round_ + 1) * EACH):
        source = Source(mutant(SEEDS, number), "strategies/mutant.qdsl")
        try:
            (checked, found), count = calls(partial(check_source, source))
        except QuantDSLError:
            continue  # a file that it imports is damaged or missing
        assert count <= CALLS_A_SECOND, number
        for finding in found:
            start, end = finding.span
            assert 0 <= start <= end <= len(source.text), (number, finding)
        assert render_all(found, source) or not found
        if checked is not None:
            verify(checked.module(entries=checked.test_entries()))
