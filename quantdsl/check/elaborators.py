"""Importing this module registers the elaborator of every node."""

from quantdsl.check import expr, literals, loops, parallel, sorting, stmts

__all__ = ["expr", "literals", "loops", "parallel", "sorting", "stmts"]
