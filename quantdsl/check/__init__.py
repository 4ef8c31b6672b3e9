"""From a syntax tree to typed IR: names, types, units, clocks, warm-up."""

from quantdsl.check.checked import Checked, check_source, compile_file

__all__ = ["Checked", "check_source", "compile_file"]
