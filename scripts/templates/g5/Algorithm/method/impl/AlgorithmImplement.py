"""A submission of 2026: calibrates on labelled trials of each subject, then decodes motor imagery."""

import json

import numpy as np
from Algorithm.method.interface.AlgorithmInterface import AlgorithmInterface
from Algorithm.method.model.AlgorithmObject import (
    AlgorithmResultObject,
    CalibrationStageResultObject,
    StageContextObject,
)
from Algorithm.service.SourceReceiver import ContinuousDataSourceReceiver

LEADS = ["C3", "Cz", "C4"]
BAND_HZ = (8.0, 30.0)
BIN_HZ = 2.0
SKIP_S = 0.5
IMAGERY = 200
TRIALS_A_CLASS = 10  # how many labelled trials it wants


class AlgorithmImplement(AlgorithmInterface):
    def get_required_channel_labels(self):
        return {"eeg_1": LEADS}

    async def calibrate(self):
        source = self._proxy.get_source("eeg_1")
        device = await source.get_device()
        self.rate = device.sample_rate
        features, labels, finished = [], [], False
        while not finished and (
            not labels or min(np.unique(labels, return_counts=True)[1]) < TRIALS_A_CLASS
        ):
            found = await source.get_calibration()
            for part in found.session_data_dict.values():
                features += [self.features(trial) for trial in part["data"]]
                labels += list(part["label"])
            finished = found.finish_flag
        stage = StageContextObject(subject_id=found.subject_id, session_id=found.session_id)
        if not labels:  # nothing to learn from: the first class always
            self.classes, self.weights = [1], np.zeros((1, 1))
            return CalibrationStageResultObject(stage_context=stage, calibration_ready=True)
        self.fit(np.array(features), np.array(labels))
        return CalibrationStageResultObject(stage_context=stage, calibration_ready=True)

    async def run(self):
        """One stage: True where another one follows."""
        source = self._proxy.get_source("eeg_1")
        trial, stage = None, None
        while True:
            packet = await source.get_data()
            if packet.finish_flag:
                return False
            here = packet.other_information["session_id"]
            if (
                ContinuousDataSourceReceiver.is_return_to_calibration_marker(packet)
                and stage is not None
            ):
                return True
            stage = here
            n = packet.data.shape[1]
            if IMAGERY in packet.data[-1]:
                trial = packet.data[:-1, :0]
            elif trial is not None:
                trial = np.hstack([trial, packet.data[:-1]])
                left = np.array([2, 3, 4]) * self.rate - trial.shape[1]
                if np.any((left >= n) & (left < 2 * n)):  # one packet before the limit of a report
                    await self._proxy.report(AlgorithmResultObject(result=self.predict(trial)))

    def predict(self, trial):
        if len(self.classes) == 1:
            return json.dumps({"predict_label": 1})
        scores = self.weights @ np.append(self.features(trial), 1.0)
        return json.dumps({"predict_label": int(self.classes[int(np.argmax(scores))])})

    def features(self, trial):
        """Log power of each lead in bins of BIN_HZ, less the mean over the leads."""
        x = trial[:, int(SKIP_S * self.rate) :]
        power = np.abs(np.fft.rfft((x - x.mean(1, keepdims=True)) * np.hanning(x.shape[1]))) ** 2
        hz = np.fft.rfftfreq(x.shape[1], 1 / self.rate)
        edges = np.arange(BAND_HZ[0], BAND_HZ[1], BIN_HZ)
        found = [power[:, (hz >= low) & (hz < low + BIN_HZ)].mean(1) for low in edges]
        return np.log(np.array(found)).ravel()

    def fit(self, features, labels):
        """Linear discriminant analysis with strong shrinkage."""
        self.classes = np.unique(labels)
        means = np.array([features[labels == one].mean(0) for one in self.classes])
        rest = features - means[np.searchsorted(self.classes, labels)]
        spread = rest.T @ rest / len(rest)
        size = np.trace(spread) / len(spread) or 1.0  # one trial a class: its mean is all there is
        spread = 0.5 * spread + 0.5 * np.eye(len(spread)) * size
        inside = np.linalg.solve(spread, means.T).T
        self.weights = np.column_stack([inside, -0.5 * (inside * means).sum(1)])
