"""Units of a voltage, as files and streams spell them, and how many microvolts one of each is."""

_SPELLED = {
    **dict.fromkeys(("volts", "volt", "v"), 1e6),
    **dict.fromkeys(("millivolts", "millivolt", "mv"), 1e3),
    **dict.fromkeys(("microvolts", "microvolt", "uv", "\N{GREEK SMALL LETTER MU}v"), 1.0),
    **dict.fromkeys(("nanovolts", "nanovolt", "nv"), 1e-3),
}
"""Folded to small letters, which makes the micro sign a mu, too."""

_ON_A_STREAM = {"0": 1e6, "-3": 1e3, "-6": 1.0, "-9": 1e-3, "": 1.0}
"""MNE's streams give the power of ten of a volt; what says nothing is an EEG's usual."""


def microvolts(unit: str) -> float | None:
    """How many microvolts one such unit is; None where it is not known as a voltage."""
    return _SPELLED.get(unit.strip().casefold())


def stream_microvolts(unit: str) -> float | None:
    """The same for the unit that a live stream states."""
    found = _ON_A_STREAM.get(unit.strip())
    return microvolts(unit) if found is None else found


KINDS = {
    **{kind: kind for kind in ("EEG", "ECOG", "SEEG", "DBS", "EOG", "ECG", "EMG", "MISC", "STIM")},
    "HEOG": "EOG",
    "VEOG": "EOG",
    "EKG": "ECG",
    "REF": "EEG",
    "TRIG": "STIM",
}
"""As BIDS and XDF write it, in capitals; what is not here (ACC, GSR, ...) is MISC."""

VOLTAGES = frozenset(("EEG", "ECOG", "SEEG", "DBS", "EOG", "ECG", "EMG", "BIO"))
"""Kinds that are sent in microvolts; the values of all others stay as they are."""


def kind_called(text: str) -> str:
    """The kind that a file calls so; what is none we know is MISC, never taken for EEG."""
    return KINDS.get(text.strip().upper(), "MISC")
