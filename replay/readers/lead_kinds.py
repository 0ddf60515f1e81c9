"""Lead kinds: what a channel that a file describes is, in MNE's terms, and whether it is a voltage."""

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
