"""A template for our ecog interface: eight angles that follow the signal's power."""

import numpy as np


class EcogAlgorithm:
    """choose_channels() is called once a subject, then get_data() and algorithm() each packet."""

    def __init__(self):
        self.power = 0.0
        self.mean = 0.0

    def choose_channels(self, subject, count):
        """The numbers (1 to 32) of the channels that you want to be sent for this subject."""
        return list(range(1, count + 1))

    def get_data(self, packet):
        """packet: (count + 1) x 40, your channels in your order, then the triggers; 1000 Hz."""
        power = float(np.log(np.var(packet[:-1]) + 1e-12))
        self.power += 0.1 * (power - self.power)
        self.mean += 0.001 * (power - self.mean)

    def algorithm(self):
        """The angles of that packet: rows of 5 ms of sho elb wri mcp hip kne ank mtp."""
        return [[20.0 * (self.power - self.mean)] * 8] * 8
