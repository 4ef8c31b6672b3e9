"""The hand-written parser and the Lark grammar give the same verdict on every program."""

from pathlib import Path

import pytest
from hypothesis import given
from lark import Lark, LarkError
from lark.indenter import DedentError, Indenter

from quantdsl.lang import ast, words
from quantdsl.lang.parser import parse
from quantdsl.lang.source import Source
from tests.lang.programs import damage, programs, seeds, write_program

LEXER_ONLY = {"QD0104", "QD0109", "QD0110", "QD0122", "QD0123"}
"""What the grammar does not say: ranges, limits, and what may be assigned or annotated."""


class Blocks(Indenter):
    NL_type = "_NL"
    OPEN_PAREN_types = ("LPAR", "LSQB", "LBRACE")
    CLOSE_PAREN_types = ("RPAR", "RSQB", "RBRACE")
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 4


@pytest.fixture(scope="module")
def grammar() -> Lark:
    text = (Path(__file__).parent.parent / "grammar.lark").read_text()
    units = "|".join(sorted(words.UNITS - {"%"}, key=len, reverse=True))
    text = text.replace("@UNITS@", units).replace("@RESERVED@", "|".join(sorted(words.RESERVED)))
    return Lark(text, parser="lalr", postlex=Blocks(), maybe_placeholders=False)


def accepts(grammar: Lark, text: str) -> bool:
    try:
        grammar.parse(text)
    except (LarkError, DedentError):
        return False
    return True


def verdict(text: str) -> tuple[bool, set[str]]:
    parsed = parse(Source(text))
    return parsed.ok, {d.code for d in parsed.diagnostics}


@given(programs)
def test_both_accept_right_programs(grammar, text):
    ok, codes = verdict(text)
    assert ok, codes
    assert accepts(grammar, text)


@given(seeds)
def test_both_judge_damaged_programs_alike(grammar, seed):
    text = damage(write_program(seed), seed)
    ok, codes = verdict(text)
    if not codes & LEXER_ONLY:
        assert ok == accepts(grammar, text)


def test_both_accept_the_samples(grammar, sample):
    assert verdict(sample)[0]
    assert accepts(grammar, sample)


def test_every_node_of_the_tree_is_made(sample_texts):
    """The samples and a thousand programs use every kind of node but Bad."""
    seen: set[str] = set()
    for text in [*sample_texts.values(), *map(write_program, range(300))]:
        seen |= node_kinds(parse(Source(text)).file)
    known = {c.__name__ for c in vars(ast).values() if isinstance(c, type) and c is not ast.Node}
    assert known - seen <= {"Bad", "Struct", "Node"} | {"Span"}


def node_kinds(node: object) -> set[str]:
    if isinstance(node, tuple):
        return set().union(*map(node_kinds, node)) if node else set()
    if not isinstance(node, ast.Node):
        return set()
    children = (getattr(node, field) for field in node.__struct_fields__)
    return {type(node).__name__}.union(*map(node_kinds, children))
