"""The start of a command: its command line is imported, and Ctrl-C meanwhile prints no traceback."""

import signal
from importlib import import_module


def start_command(module: str, program: str) -> None:
    """Run `main` of the module as the program of that name.

    The import takes a quarter of a second. Until it is done Ctrl-C ends the process at once, as it ends a
    program that has no handler; from then on the command decides.
    """
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:  # in the background a shell has it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = import_module(module).main
    signal.signal(signal.SIGINT, interrupted)
    main(prog_name=program)
