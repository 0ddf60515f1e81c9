"""A template for G2 online: idle, reported a second after each task begins (turing)."""

from AlgorithmSystem.AlgorithmImplement.Interface.AlgorithmInterface import AlgorithmInterface

WINDOW = 250


class AlgorithmImplementTuring(AlgorithmInterface):
    PARADIGMNAME = "Turing"

    def run(self):
        end_flag, seen = False, None
        while not end_flag:
            data_model = self.algo_sys_mng.get_data()
            if data_model is None:
                continue
            triggers = list(data_model.data[-1])
            if seen is not None:
                seen += len(triggers)
                if seen >= WINDOW:
                    self.algo_sys_mng.report(7)  # your algorithm's answer: 1 to 7
                    seen = None
            if any(8 <= code < 80 for code in triggers):
                seen = 0
            end_flag = data_model.finish_flag
