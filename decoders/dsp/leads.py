"""Leads by name: areas of the head, matching names between a model and a stream."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import TruthError
from bci_stream.packet import Lead

OCCIPITAL = re.compile(r"(?:PO|O|I)(?:Z|\d+)|PZ")
SENSORIMOTOR = re.compile(r"(?:FC|C|CP)(?:Z|[1-6])")
BRAIN_KINDS = frozenset({"EEG", "ECOG", "SEEG", "DBS"})
FEWEST = 3


def plain_name(name: str) -> str:
    """Normalise a name: `Fc5.`, `EEG FC5` and `FC5-REF` are all FC5."""
    return name.upper().removeprefix("EEG").split("-")[0].strip(" .")


def brain_leads(leads: Sequence[Lead]) -> list[int]:
    """Indices of the leads of a brain, by kind; all if no lead has such a kind."""
    found = [i for i, lead in enumerate(leads) if lead.kind in BRAIN_KINDS]
    return found or list(range(len(leads)))


def leads_over(area: re.Pattern[str], leads: Sequence[Lead]) -> list[int]:
    """Indices of the leads over an area; all brain leads if fewer than 3 names match."""
    brain = brain_leads(leads)
    found = [i for i in brain if area.fullmatch(plain_name(leads[i].name))]
    return found if len(found) >= FEWEST else brain


def find_leads(wanted: Sequence[str], names: Sequence[str]) -> tuple[list[int], NDArray[np.bool_]]:
    """The index of each wanted name (0 if it is missing), and which of them are present."""
    places = [names.index(name) if name in names else 0 for name in wanted]
    return places, np.array([name in names for name in wanted], dtype=np.bool_)


def common_names(recordings: Sequence[Sequence[str]]) -> list[str]:
    """The names that all recordings have, in the first one's order. Raises TruthError if none."""
    first, *others = recordings
    common = [name for name in first if all(name in names for names in others)]
    if not common:
        raise TruthError("the recordings have no lead in common: train on one montage at a time")
    return common
