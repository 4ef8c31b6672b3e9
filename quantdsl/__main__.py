"""`python -m quantdsl`: the command line of this Python, where `quantdsl` is not on the path."""

from quantdsl.cli import main

if __name__ == "__main__":  # a process that we spawn imports this file too
    main()
