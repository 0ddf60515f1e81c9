"""The information transfer rate: how many bits a minute a decoder gets through (Wolpaw)."""

from math import log2


def itr_bits_per_min(right: int, trials: int, classes: int, trial_s: float) -> float:
    """60/T * (log2 M + P log2 P + (1-P) log2((1-P)/(M-1))) with P = right/trials; 0 up to chance.

    Chance is compared in whole numbers: at P = 1/M the formula gives 0 but for rounding.
    """
    if right * classes <= trials:
        return 0.0
    p = right / trials
    bits = log2(classes) + p * log2(p)
    if right < trials:
        bits += (1 - p) * log2((1 - p) / (classes - 1))
    return 60.0 / trial_s * bits
