"""`python -m replay` is bci-replay."""

from bci_stream.start import start_command


def run() -> None:
    """Run bci-replay."""
    start_command("replay.cli", "bci-replay")


if __name__ == "__main__":
    run()
