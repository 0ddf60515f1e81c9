"""`python -m bci_stream.judge` is bci-judge."""

from bci_stream.judge.cli import main

if __name__ == "__main__":
    main(prog_name="bci-judge")
