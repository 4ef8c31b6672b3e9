"""What the README shows is so: its strategy, the messages it quotes, the files it names."""

import re
from pathlib import Path

import pytest

from quantdsl.check import check_source
from quantdsl.lang.diagnostics import SourceError
from quantdsl.lang.format import format_source
from quantdsl.lang.source import Source

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "README.md"
README = PAGE.read_text(encoding="utf-8")
(STRATEGY,) = re.findall(r"```quantdsl\n(.*?)```", README, re.DOTALL)
(MESSAGES,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
MISTAKES = {
    "let s = ta.sma(close, slow)": "let s = ta.sma(close[-1], slow)",
    "stop_loss = close - 2.5 * ta.atr(14)": "stop_loss = close - 5m",
}


def test_the_strategy_is_canonical_and_has_no_finding():
    assert format_source(STRATEGY) == STRATEGY
    checked, diagnostics = check_source(Source(STRATEGY))
    assert checked is not None
    assert not diagnostics


def test_the_messages_are_those_of_the_strategy_with_two_mistakes(request):
    """--update-golden writes them into the README."""
    text = STRATEGY
    for right, wrong in MISTAKES.items():
        assert right in text
        text = text.replace(right, wrong)
    source = Source(text, "my_idea.qdsl")
    _, diagnostics = check_source(source)
    printed = str(SourceError(source, diagnostics)).strip() + "\n"
    if request.config.getoption("--update-golden"):
        PAGE.write_text(README.replace(MESSAGES, printed), encoding="utf-8")
    else:
        assert printed == MESSAGES


@pytest.mark.parametrize("target", re.findall(r"\]\((?!https:)([^)#]+)", README))
def test_a_file_that_the_readme_names_is_there(target):
    assert (ROOT / target).exists()
