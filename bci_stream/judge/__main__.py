"""`python -m bci_stream.judge` is bci-judge."""

from bci_stream.start import start_command


def run() -> None:
    """Run bci-judge."""
    start_command("bci_stream.judge.cli", "bci-judge")


if __name__ == "__main__":
    run()
