"""Units of voltage as files and streams spell them, kinds of leads, and names of a trigger channel."""

_SPELLINGS = {
    1e6: ("volts", "volt", "V"),
    1e3: ("millivolts", "millivolt", "mV"),
    # The last three are a mu written in another encoding: Shift-JIS, and both UTF-8 forms.
    1.0: ("microvolts", "microvolt", "uV", "\u03bcV", "\u00b5V", "\x83\xcaV", "Âµv", "Î¼v"),
    1e-3: ("nanovolts", "nanovolt", "nV"),
}
_MICROVOLTS = {name.casefold(): scale for scale, names in _SPELLINGS.items() for name in names}

_STREAM_UNITS = {"0": 1e6, "-3": 1e3, "-6": 1.0, "-9": 1e-3, "": 1.0}
"""MNE-LSL states the power of ten of a volt; a stream without a unit is taken as microvolts."""


def microvolts(unit: str) -> float | None:
    """How many microvolts one such unit is; None if it is not a known unit of voltage."""
    return _MICROVOLTS.get(unit.strip().casefold())


def stream_microvolts(unit: str) -> float | None:
    """As `microvolts`, for the unit that an LSL stream states."""
    found = _STREAM_UNITS.get(unit.strip())
    return microvolts(unit) if found is None else found


KINDS = {
    **{kind: kind for kind in ("EEG", "ECOG", "SEEG", "DBS", "EOG", "ECG", "EMG", "MISC", "STIM")},
    "HEOG": "EOG",
    "VEOG": "EOG",
    "EKG": "ECG",
    "REF": "EEG",
    "TRIG": "STIM",
}
"""Channel types of BIDS and XDF in capitals, and the kind of lead each one is."""

VOLTAGES = frozenset(("EEG", "ECOG", "SEEG", "DBS", "EOG", "ECG", "EMG", "BIO"))
"""Kinds of leads that are sent in microvolts; values of other kinds are not scaled."""


def kind_called(text: str) -> str:
    """The kind of lead for a channel type in a file; MISC for types that are not in KINDS."""
    return KINDS.get(text.strip().upper(), "MISC")
