"""The command line entry: `vigil` and `python -m service`."""

from service.cli.app import app


def main() -> None:
    """Run the command that the arguments name."""
    app()


if __name__ == "__main__":
    main()
