"""The command `quantdsl`, also as `python -m quantdsl` where it is not on the path."""

import sys

from quantdsl.errors import EXIT_INTERRUPTED


def main() -> None:
    """Run one command and leave the process with its exit code, on Ctrl-C as well."""
    try:
        from quantdsl import cli

        cli.main()
    except KeyboardInterrupt:  # while the command line itself was imported
        sys.stderr.write("interrupted\n")
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":  # a process that we spawn imports this file too
    main()
