"""Which limb is imagined: the part of the motor cortex that is quieter than it mostly is."""

import numpy as np

IMAGERY_START = 200
C3, CZ, C4 = 28, 25, 29
CLASS_OF = {0: "2", 1: "3", 2: "1"}  # C3 quiet: right hand; Cz: feet; C4: left hand
REPORT_S = (2.0, 3.0, 3.96)  # the third one must come before the packet that carries 241


class ImageryReader:
    """Fed packet by packet: step() gives a class where a report is due, else None."""

    def start(self, rate):
        self.rate = rate
        self.data = None  # None: no trial is open
        self.reported = 0
        self.mean = np.zeros(3)
        self.trials = 0

    def step(self, packet):
        result = None
        if self.data is not None:
            self.data = np.concatenate((self.data, packet[[C3, CZ, C4]]), axis=1)
            if self.data.shape[1] >= round(REPORT_S[self.reported] * self.rate):
                result = self.decide()
        if IMAGERY_START in packet[-1]:  # its data begin with the next packet
            self.data = np.zeros((3, 0))
            self.reported = 0
        return result

    def decide(self):
        power = self.log_power()
        quiet = int(np.argmin(power - self.mean))
        self.reported += 1
        if self.reported == len(REPORT_S):
            self.trials += 1
            self.mean += (power - self.mean) / self.trials
            self.data = None
        return CLASS_OF[quiet]

    def log_power(self):
        """Of 8 to 30 Hz at each of the three leads, less what they share."""
        centred = self.data - self.data.mean(axis=1, keepdims=True)
        spectrum = np.abs(np.fft.rfft(centred, axis=1)) ** 2
        hertz = np.fft.rfftfreq(self.data.shape[1], 1 / self.rate)
        power = np.log(spectrum[:, (hertz >= 8) & (hertz <= 30)].mean(axis=1) + 1e-12)
        return power - power.mean()
