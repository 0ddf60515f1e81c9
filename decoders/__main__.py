"""`python -m decoders` is bci-decode."""

from decoders.cli import main

if __name__ == "__main__":
    main(prog_name="bci-decode")
