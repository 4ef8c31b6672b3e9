"""The page of promises names tests that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "quantdsl" / "docs" / "promises.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)


def test_each_row_names_its_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "Held by" not in line]
    assert len(rows) > 30
    assert not [row for row in rows if "`tests/" not in row]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_is_there(file, name):
    path = ROOT / file
    assert path.is_file()
    if name:
        found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert name in {one.name for one in found if isinstance(one, ast.FunctionDef)}
