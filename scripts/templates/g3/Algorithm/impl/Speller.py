"""A speller without training: the mean response after each group's flashes, summed by character."""

import numpy as np

RATE = 250
GROUPS = {
    1: "ABCDEF2",
    2: "GHIJKL9",
    3: "MNOPQR8",
    4: "ASTUVWX",
    5: "BHYZ134",
    6: "CIO567_",
    7: "DJPV",
    8: "EKQW3",
    9: "FLRX4_",
    10: "GMSY25",
    11: "NTZ69",
    12: "U178",
}
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789_"
TRIAL_END = 241
EEG = slice(0, 59)
CENTRAL, SIDES = [25, 42], [54, 55]  # Cz Pz; PO7 PO8
EPOCH = int(0.6 * RATE)


def bump(centre_s, width_s):
    """The shape of one wave of the response; its mean is 0, so that drifts don't count."""
    seconds = np.arange(EPOCH) / RATE
    shape = np.exp(-0.5 * ((seconds - centre_s) / width_s) ** 2)
    return shape - shape.mean()


TEMPLATE = np.stack((bump(0.34, 0.06), -bump(0.18, 0.025)))  # P300 centrally, N170 at the sides


class Speller:
    """Fed packet by packet: step() gives a character where a trial has ended, else None."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.waves = np.zeros((2, 0))
        self.flashes = []

    def step(self, packet):
        result = None
        codes = packet[-1].astype(int)
        if np.any((codes > 100) & (codes < 137)):  # a trial begins
            self.clear()
        start = self.waves.shape[1]
        self.waves = np.append(self.waves, self.two_waves(packet), axis=1)
        self.flashes += [(start + at, code) for at, code in enumerate(codes) if code in GROUPS]
        if TRIAL_END in codes and self.flashes:
            result = self.decide()
            self.clear()
        return result

    @staticmethod
    def two_waves(packet):
        """What stands out from all leads: in the centre, and at the sides of the back."""
        wanted = np.stack((packet[CENTRAL].mean(axis=0), packet[SIDES].mean(axis=0)))
        return wanted - packet[EEG].mean(axis=0)

    def decide(self):
        responses = {group: [0.0] for group in GROUPS}
        for position, group in self.flashes:
            epoch = self.waves[:, position : position + EPOCH]
            if epoch.shape[1] == EPOCH:
                responses[group].append(float((epoch * TEMPLATE).sum()))
        mean = {group: np.mean(seen) for group, seen in responses.items()}
        return max(CHARACTERS, key=lambda one: sum(mean[g] for g in GROUPS if one in GROUPS[g]))
