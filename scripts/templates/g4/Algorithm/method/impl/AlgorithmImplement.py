"""A template for G4 (async): three reports a trial, at 2, 3 and just under 4 s (mi)."""

from Algorithm.method.interface.AlgorithmInterface import AlgorithmInterface
from Algorithm.method.model.AlgorithmObject import AlgorithmResultObject
from ImageryReader import ImageryReader


class AlgorithmImplement(AlgorithmInterface):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.reader = ImageryReader()

    async def run(self):
        source = self._proxy.get_source("eeg_1")
        device = await source.get_device()
        self.reader.start(device.sample_rate)
        while not self._end_flag:
            packet = await source.get_data()
            if packet.data is not None:
                result = self.reader.step(packet.data)
                if result is not None:
                    await self._proxy.report(AlgorithmResultObject(result=result))
            if packet.finish_flag:
                break
