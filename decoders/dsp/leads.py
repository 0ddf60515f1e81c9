"""A group of leads: those that lie over one part of the head, found by their names."""

import re
from collections.abc import Sequence

from bci_stream.packet import Lead

OCCIPITAL = re.compile(r"(?:PO|O|I)(?:Z|\d+)|PZ")
SENSORIMOTOR = re.compile(r"(?:FC|C|CP)(?:Z|[1-6])")
BRAIN_KINDS = frozenset({"EEG", "ECOG", "SEEG", "DBS"})
FEWEST = 3


def plain_name(name: str) -> str:
    """`Fc5.`, `EEG FC5` and `FC5-REF` are all FC5."""
    return name.upper().removeprefix("EEG").split("-")[0].strip(" .")


def brain_leads(leads: Sequence[Lead]) -> list[int]:
    """Indices of the leads that show a brain; all of them where no kind says so."""
    found = [i for i, lead in enumerate(leads) if lead.kind in BRAIN_KINDS]
    return found or list(range(len(leads)))


def leads_over(area: re.Pattern[str], leads: Sequence[Lead]) -> list[int]:
    """Indices of the leads over an area; all brain leads where names tell of fewer than 3."""
    brain = brain_leads(leads)
    found = [i for i in brain if area.fullmatch(plain_name(leads[i].name))]
    return found if len(found) >= FEWEST else brain
