"""The header of an EDF or BDF file, as texts: who needs a number of it says what becomes of a bad one."""

from dataclasses import dataclass
from pathlib import Path

HEADER = 256
SAMPLE_BYTES = {".edf": 2, ".bdf": 3}

_FIELDS = {"label": 16, "transducer": 80, "unit": 8, "low": 8, "high": 8}
_FIELDS |= {"digital_low": 8, "digital_high": 8, "filter": 80, "samples": 8, "reserved": 32}


@dataclass(frozen=True)
class EdfHeader:
    """What a file says of itself, and in `fields` of each of its channels."""

    path: Path
    head: bytes
    fields: dict[str, list[str]]

    @property
    def data_start(self) -> int:
        return int(self.head[184:192])

    @property
    def is_discontinuous(self) -> bool:
        return self.head[192:236].strip().endswith(b"+D")

    @property
    def is_unclosed(self) -> bool:
        """Whether the number of its records was never written, as after a crash."""
        return self.head[236:244].strip(b"\0 ") == b"-1"

    @property
    def n_bytes(self) -> int:
        """How long a closed file is by its own account."""
        return self.data_start + int(self.head[236:244]) * sum(self.samples) * self.sample_bytes

    @property
    def sample_bytes(self) -> int:
        return SAMPLE_BYTES[self.path.suffix.lower()]

    @property
    def samples(self) -> list[int]:
        """How many each channel has in a record."""
        return [int(text) for text in self.fields["samples"]]


def read_edf_header(path: Path) -> EdfHeader | None:
    """None for what is no EDF or BDF."""
    if path.suffix.lower() not in SAMPLE_BYTES:
        return None
    with path.open("rb") as file:
        head = file.read(HEADER)
        try:
            count = max(int(head[252:256]), 0)
        except ValueError:
            return None
        fields = {n: _texts(file.read(width * count), width) for n, width in _FIELDS.items()}
    return EdfHeader(path, head, fields)


def _texts(raw: bytes, width: int) -> list[str]:
    text = raw.decode("latin-1")
    return [text[at : at + width].strip("\0 ") for at in range(0, len(text), width)]
