"""A template for G2 (snake_case): each trial's task after 4 s of data (turing)."""

from Algorithm.Interface.AlgorithmInterface import AlgorithmInterface
from Algorithm.Interface.Model.ReportModel import ReportModel
from Algorithm.TaskReader import TaskReader


class AlgorithmImplementTuring(AlgorithmInterface):
    PARADIGMNAME = "Turing"

    def __init__(self):
        super().__init__()
        self.reader = TaskReader()

    def run(self):
        end_flag = False
        while not end_flag:
            data_model = self.task.get_data()
            result = self.reader.step(data_model.data)
            if result is not None:
                report_model = ReportModel()
                report_model.result = result
                self.task.report(report_model)
            end_flag = data_model.finish_flag
