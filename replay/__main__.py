"""`python -m replay` is bci-replay."""

from replay.cli import main

if __name__ == "__main__":
    main(prog_name="bci-replay")
