"""What `bci-decode doctor` checks beside the rest: how submissions are contained, and their Pythons."""

from collections.abc import Iterator
from importlib import metadata

from bci_stream.doctor import Finding
from decoders.decoder import DecoderError
from decoders.registry import GROUP, entry_of


def sandbox() -> Iterator[Finding]:
    """How strongly a submission is contained on this machine."""
    try:
        from decoders.host.sandbox import bubblewrap_fault, choose_sandbox
    except ImportError:  # a system without POSIX processes
        yield Finding("sandbox", "note", "submissions can't be run on this system")
        return
    fault = bubblewrap_fault()
    if fault is None:
        yield Finding("sandbox", "ok", choose_sandbox().title)
        return
    remedy = (
        "run submissions of others only where bubblewrap works: install it, and in a container "
        "allow user namespaces"
    )
    yield Finding("sandbox", "note", f"resource limits alone ({fault})", remedy)


def environments() -> Iterator[Finding]:
    """What makes the environments of submissions."""
    from decoders.host.install import uv_program

    if uv_program() is not None:
        yield Finding("environments", "ok", "uv makes those of submissions")
    else:
        remedy = "if submissions ask for another Python: pip install uv"
        yield Finding(
            "environments", "note", "uv is not installed: only Pythons that are here", remedy
        )


def installed_decoders() -> Iterator[Finding]:
    """Decoders of other packages that can't be imported."""
    for point in metadata.entry_points(group=GROUP):
        try:
            entry_of(point.name)
        except DecoderError as error:
            yield Finding("decoders", "note", str(error))


CHECKS = (sandbox, environments, installed_decoders)
