"""A template for emotion's MyAlgorithm: a class from frontal asymmetry and arousal."""

import numpy as np

RATE = 250
F3, F4 = 3, 4
CLASSES = 9


class MyAlgorithm:
    """get_data() is called with each packet, algorithm() once each second of a block."""

    def __init__(self):
        self.data = np.zeros((33, 0))
        self.mean = np.zeros(2)
        self.seconds = 0

    def get_data(self, packet):
        """packet: 33 x 50, 32 leads and the triggers; the last second of it is kept."""
        self.data = np.concatenate((self.data, packet), axis=1)[:, -RATE:]

    def algorithm(self):
        """The class of the last second: an int from 0 to 8."""
        place = self.valence_and_arousal()
        self.seconds += 1
        self.mean += (place - self.mean) / self.seconds
        angle = np.arctan2(*(place - self.mean)[::-1])
        return int((angle + np.pi) / (2 * np.pi) * CLASSES) % CLASSES

    def valence_and_arousal(self):
        spectrum = np.abs(np.fft.rfft(self.data[:-1], axis=1)) ** 2
        hertz = np.fft.rfftfreq(self.data.shape[1], 1 / RATE)
        alpha = np.log(spectrum[:, (hertz >= 8) & (hertz < 13)].sum(axis=1) + 1e-12)
        beta = np.log(spectrum[:, (hertz >= 13) & (hertz < 30)].sum(axis=1) + 1e-12)
        return np.array([alpha[F4] - alpha[F3], (beta - alpha).mean()])
