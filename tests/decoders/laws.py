"""Which laws of `bci-decode check` a decoder breaks."""

from itertools import islice

from decoders.checks import Factory, check
from replay.model.source import Session

CAUSAL = 6
"""The first laws, about order and causality; leads that are spoilt and memory come after them."""


def broken(track: str, factory: Factory, session: Session, most: int | None = None) -> list[str]:
    """What is broken among the first `most` laws, in words; each law costs about as much as a run."""
    laws = list(islice(check(track, factory, session), most))
    assert not all(law.ok for law in laws) or len(laws) >= CAUSAL
    return [f"{law.name}: {law.detail}" for law in laws if not law.ok]
