"""Units of a voltage, as streams spell them, and how many microvolts one of each is."""

MICROVOLTS: dict[str, float] = {
    "volts": 1e6,
    "volt": 1e6,
    "v": 1e6,
    "0": 1e6,
    "millivolts": 1e3,
    "millivolt": 1e3,
    "mv": 1e3,
    "-3": 1e3,
    "microvolts": 1.0,
    "microvolt": 1.0,
    "uv": 1.0,
    "\N{GREEK SMALL LETTER MU}v": 1.0,
    "-6": 1.0,
    "": 1.0,
    "nanovolts": 1e-3,
    "nanovolt": 1e-3,
    "nv": 1e-3,
    "-9": 1e-3,
}
"""Folded to small letters. MNE's streams give the power of ten of a volt. None is said: an EEG's usual."""


def microvolts(unit: str) -> float | None:
    """How many microvolts one such unit is; None where it is not known as a voltage."""
    return MICROVOLTS.get(unit.strip().casefold())
