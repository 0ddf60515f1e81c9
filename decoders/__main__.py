"""`python -m decoders` is bci-decode."""

from bci_stream.start import start_command


def run() -> None:
    """Run bci-decode."""
    start_command("decoders.cli", "bci-decode")


if __name__ == "__main__":
    run()
