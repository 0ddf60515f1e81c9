"""The leads of the tracks, in the order in which the rule documents list them."""

# fmt: off
NEUSEN_64 = (
    "Fpz", "Fp1", "Fp2", "AF3", "AF4", "AF7", "AF8", "Fz",
    "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8",
    "FCz", "FC1", "FC2", "FC3", "FC4", "FC5", "FC6", "FT7",
    "FT8", "Cz", "C1", "C2", "C3", "C4", "C5", "C6",
    "T7", "T8", "CP1", "CP2", "CP3", "CP4", "CP5", "CP6",
    "TP7", "TP8", "Pz", "P3", "P4", "P5", "P6", "P7",
    "P8", "POz", "PO3", "PO4", "PO5", "PO6", "PO7", "PO8",
    "Oz", "O1", "O2", "ECG", "HEOR", "HEOL", "VEOU", "VEOL",
)
# fmt: on
"""Table 4 of seeds 000 and 001, table 1 of seed 004 (which alone spells Fz as everybody does)."""

NEUSEN_64_KINDS = {"ECG": "ECG", "HEOR": "EOG", "HEOL": "EOG", "VEOU": "EOG", "VEOL": "EOG"}

# fmt: off
EMOTION_FIRST_BATCH = (
    "Fp1", "Fp2", "Fz", "F3", "F4", "F7", "F8", "FC1",
    "FC2", "FC5", "FC6", "Cz", "C3", "C4", "T3", "T4",
    "A1", "A2", "CP1", "CP2", "CP5", "CP6", "Pz", "P3",
    "P4", "T5", "T6", "PO3", "PO4", "Oz", "O1", "O2",
)
# fmt: on
"""Seed 002, table 2.1: subjects 1-54."""

# fmt: off
EMOTION_SECOND_BATCH = (
    "Fp1", "Fp2", "Fz", "F3", "F4", "F7", "F8", "FC1",
    "FC2", "FC5", "FC6", "Cz", "C3", "C4", "T7", "T8",
    "CP1", "CP2", "CP5", "CP6", "Pz", "P3", "P4", "P7",
    "P8", "PO3", "PO4", "Oz", "O1", "O2", "A2", "A1",
)
# fmt: on
"""Seed 002, table 2.2: subjects 55-80 and the test set; the standard."""

OLD_NAMES = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}
"""The same places on the head: the older name and the newer one (seed 002, section 2.1)."""

ECOG_32 = tuple(f"ch{number}" for number in range(1, 33))
"""Seed 003, section 2."""
