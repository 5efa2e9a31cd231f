"""The program: python -m trainlib_deployer, and trainlib-deploy where it is installed."""

import sys

from trainlib_deployer import interrupted


def main() -> None:
    try:
        from trainlib_deployer.cli.main import main as tool

        tool()
    except KeyboardInterrupt:
        print(f"error: {interrupted.WORDS}", file=sys.stderr)
        sys.exit(interrupted.CODE)


if __name__ == "__main__":
    main()
