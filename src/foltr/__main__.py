"""The command `foltr`. It imports the command line inside a function, so that Ctrl-C while it is
imported is a message."""

import sys


def main() -> None:
    try:
        from foltr.cli.app import main as command_line

        command_line()
    except KeyboardInterrupt:
        print("\nfoltr: stopped before anything began; nothing is lost", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
