"""Importing this module registers the elaborator of every node."""

from quantdsl.check import expr, literals, loops, parallel, stmts

__all__ = ["expr", "literals", "loops", "parallel", "stmts"]
