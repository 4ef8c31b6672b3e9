"""Importing this module registers the elaborator of every node."""

from quantdsl.check import expr, literals, stmts

__all__ = ["expr", "literals", "stmts"]
