"""Which task is done: a response near 15.5 Hz and its drift, else the quieter motor cortex."""

import numpy as np

RATE = 250
WINDOW = 4 * RATE  # below the 5 s that a report may use
CENTRE_HZ = 15.55
SSVEP_HZ = {3: 15.4, 4: 15.5, 5: 15.6, 6: 15.7}
ALLOWED = {
    1: (1, 3, 7),
    2: (1, 2, 3, 4),
    3: (1, 2, 3, 4),
    4: (2, 4, 7),
    5: (5, 7),
    6: (6, 3, 1, 7),
    7: (6, 4, 2, 7),
    8: (6, 3, 1, 7),
    9: (6, 4, 2, 7),
}
C3, C4 = 28, 29
OCCIPITAL = slice(49, 59)


class TaskReader:
    """Fed packet by packet: step() gives a task where one is due, else None."""

    def __init__(self):
        self.allowed = ()
        self.data = None  # None: no trial is open

    def step(self, packet):
        result = None
        if self.data is not None:
            self.data = np.concatenate((self.data, packet[:-1]), axis=1)
            if self.data.shape[1] >= WINDOW:
                result = self.decide(self.data[:, :WINDOW])
                self.data = None
        for code in packet[-1].astype(int):
            if 8 <= code < 80:  # a task begins; its data begin with the next packet
                self.allowed = ALLOWED[code >> 3]
                self.data = np.zeros((len(packet) - 1, 0))
        return result

    def decide(self, data):
        wave = data[OCCIPITAL].mean(axis=0)
        spectrum = np.abs(np.fft.rfft(wave - wave.mean()))
        hertz = np.fft.rfftfreq(WINDOW, 1 / RATE)
        around = (hertz > 13) & (hertz < 18)
        peak = (hertz > 15.2) & (hertz < 15.9)
        flickers = [task for task in self.allowed if task in SSVEP_HZ]
        if flickers and spectrum[peak].max() > 2.5 * np.median(spectrum[around]):
            drift = self.drift_hz(wave)
            return min(flickers, key=lambda task: abs(SSVEP_HZ[task] - CENTRE_HZ - drift))
        hands = [task for task in self.allowed if task in (1, 2)]
        if 7 in self.allowed or not hands:
            return 7
        return hands[0] if len(hands) == 1 else self.hand(data)

    @staticmethod
    def drift_hz(wave):
        """How far the response lies from the centre, from its phase in the two halves."""
        time = np.arange(WINDOW) / RATE
        turned = wave * np.exp(-2j * np.pi * CENTRE_HZ * time)
        first, second = turned[: WINDOW // 2].sum(), turned[WINDOW // 2 :].sum()
        return np.angle(second / first) / (2 * np.pi) / (WINDOW / 2 / RATE)

    @staticmethod
    def hand(data):
        """Imagery of a hand makes the cortex of the other side quieter."""
        hertz = np.fft.rfftfreq(WINDOW, 1 / RATE)
        band = (hertz > 8) & (hertz < 30)
        power = (np.abs(np.fft.rfft(data[[C3, C4]], axis=1)) ** 2)[:, band].sum(axis=1)
        return 1 if power[1] < power[0] else 2
