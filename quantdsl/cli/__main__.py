"""`python -m quantdsl.cli` is the command `quantdsl`."""

from quantdsl.cli import main

main()
