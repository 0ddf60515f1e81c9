"""A template for G3: the character whose flashes drew the largest response (erp)."""

import numpy as np
from Algorithm.AlgorithmInterface import AlgorithmInterface
from Algorithm.impl.Speller import Speller


class AlgorithmImplement(AlgorithmInterface):
    def __init__(self):
        super().__init__()
        self.speller = Speller()

    def run(self):
        end_flag = False
        while not end_flag:
            data_model = self.comm_proxy.get_data()
            if data_model is None:
                continue
            result = self.speller.step(np.array(data_model.data))
            if result is not None:
                self.comm_proxy.report(result)
            end_flag = data_model.finish_flag
