"""Parameters of a synthetic source: what stands behind the `?` of its URI, read and checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from bci_stream.errors import SourceError


@dataclass(frozen=True, slots=True)
class Number:
    """A parameter that is a number; whole where `default` is one."""

    default: float
    low: float
    high: float
    about: str

    def read(self, name: str, text: str) -> float:
        whole = isinstance(self.default, int)
        try:
            value: float = int(text) if whole else float(text)
        except ValueError:
            value = float("nan")
        if not self.low <= value <= self.high:
            kind = "a whole number" if whole else "a number"
            raise SourceError(f"{name} must be {kind} from {self.low} to {self.high}, got {text!r}")
        return value


def common(subjects: int, first_subject: int) -> dict[str, Number]:
    """What every synthetic source has."""
    return {
        "subjects": Number(subjects, 1, 1000, "how many people"),
        "first_subject": Number(first_subject, 1, 100_000, "the number of the first one"),
        "seed": Number(1, 0, 2**32 - 1, "another seed, other people"),
        "difficulty": Number(0.5, 0.0, 1.0, "0 clear signals, 1 a hard case"),
    }


def read_params(
    source: str, known: Mapping[str, Number], given: Mapping[str, str]
) -> dict[str, float]:
    """All parameters: checked where they are given, else their defaults."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SourceError(f"{source} has no parameter {unknown[0]!r}; it has\n{_table(known)}")
    return {
        name: number.read(f"{source}: {name}", given[name]) if name in given else number.default
        for name, number in known.items()
    }


def _table(known: Mapping[str, Number]) -> str:
    return "\n".join(
        f"  {name}, {number.low} to {number.high} ({number.default}): {number.about}"
        for name, number in known.items()
    )
