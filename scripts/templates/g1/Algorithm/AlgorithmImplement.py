"""A template for G1 (camelCase): always the same letter, at each trial's end (erp)."""

from Algorithm.Interface.AlgorithmInterface import AlgorithmInterface
from Algorithm.Interface.Model.ReportModel import ReportModel

TRIAL_END = 241


class AlgorithmImplement(AlgorithmInterface):
    def run(self):
        finished = False
        while not finished:
            model = self._problemInterface.getData()  # 65 x 10: leads, then triggers
            if TRIAL_END in list(model.data[-1]):
                report = ReportModel()
                report.resultType = "A"  # your algorithm's answer: a character, or 1-36
                self._problemInterface.report(report)
            finished = model.finishedFlag
