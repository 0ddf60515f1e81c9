"""Training of the erp decoder: the mean template of labelled people, a prior for new ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from bci_stream.errors import TruthError
from bci_stream.packet import SignalInfo
from decoders.dsp import Array
from decoders.dsp.leads import common_names
from decoders.erp.decoder import NAME
from decoders.erp.flashes import FlashFeatures
from decoders.erp.stopping import SpellerLayout
from decoders.model import Model
from replay.model.source import Session
from tracks.common.codes import TRIAL_END
from tracks.erp import CHARACTERS, FIRST_TARGET, TARGETS


def fit(
    recordings: Sequence[Session],
    *,
    seed: int,
    progress: Callable[[str], None],
    groups: Sequence[str] | None = None,
) -> Model:
    """Average the templates of the recordings over the leads that all of them have."""
    del seed  # deterministic
    layout = SpellerLayout.of(groups)
    templates: list[tuple[tuple[str, ...], Array]] = []
    for session in recordings:
        progress(f"flashes of {session.subject}")
        templates.append(template_of(session, layout))
    return pack(templates, layout)


def pack(templates: Sequence[tuple[tuple[str, ...], Array]], layout: SpellerLayout) -> Model:
    """A model file of templates: each (leads, (times, leads))."""
    names = common_names([leads for leads, _ in templates])
    aligned = [t[:, [leads.index(name) for name in names]] for leads, t in templates]
    arrays = {"leads": np.array(names), "template": np.mean(aligned, axis=0)}
    settings = {"people": len(templates), "groups": list(layout.groups)}
    return Model("erp", NAME, arrays, settings)


def template_of(session: Session, layout: SpellerLayout) -> tuple[tuple[str, ...], Array]:
    """(leads, (times, leads)): mean difference of targets and other flashes."""
    features = features_of(session)
    flashes = labelled_flashes(session, features, layout)
    try:
        difference = mean_difference(flashes, features.n_features)
    except TruthError as error:
        raise TruthError(f"session {session.subject}: {error}") from None
    return features.lead_names, difference.reshape(len(features.offsets), -1)


def mean_difference(flashes: Iterable[tuple[bool, Array]], n_features: int) -> Array:
    """Mean of targets minus mean of others. Raises TruthError if one of them is missing."""
    sums = np.zeros((2, n_features))
    counts = np.zeros(2)
    for is_target, vector in flashes:
        sums[int(is_target)] += vector
        counts[int(is_target)] += 1
    if counts.min() == 0:
        raise TruthError(
            f"erp training needs target and other flashes; got {int(counts[1])} and "
            f"{int(counts[0])}"
        )
    return np.asarray(sums[1] / counts[1] - sums[0] / counts[0])


def labelled_flashes(
    session: Session, features: FlashFeatures[int], layout: SpellerLayout
) -> Iterator[tuple[bool, Array]]:
    """(is a target, features) of every flash of a labelled session."""
    character: str | None = None
    block = 0
    for packet in session.packets(round(session.rate)):
        if packet.block != block:
            features.new_block()
            block, character = packet.block, None
        done, tag = 0, None
        for offset, code in packet.triggers:
            yield from _as_bool(features.feed(packet.samples[done:offset], tag))
            done, tag = offset, None
            if code in TARGETS:
                character = CHARACTERS[code - FIRST_TARGET]
            elif code == TRIAL_END:
                character = None
            elif character is not None and 1 <= code <= len(layout.groups):
                tag = int(character in layout.groups[code - 1])
        yield from _as_bool(features.feed(packet.samples[done:], tag))


def _as_bool(flashes: list[tuple[int, Array]]) -> Iterator[tuple[bool, Array]]:
    for tag, vector in flashes:
        yield bool(tag), vector


def features_of(session: Session) -> FlashFeatures[int]:
    """A feature extractor for a recorded session."""
    return FlashFeatures(
        SignalInfo("erp", session.subject, session.rate, session.leads, packet_samples=1)
    )
