"""Makes the framework's modules importable in further interpreters that a submission starts.

Copied into the sandbox as `sitecustomize.py`, in the folder of PYTHONPATH: Python imports it at its
start, in workers of multiprocessing (spawn, forkserver) and of joblib, and in plain subprocesses. The
framework itself (`framework.py`, one folder above) is loaded when a name of it is first imported.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

ROOT = "BCI_FRAMEWORK_ROOT"
"""Set by the submission's first process, which has the framework already, for its children."""
HOST = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP_PACKAGES = ("Algorithm", "AlgorithmImplement", "AlgorithmSystem")


class LazyFramework:
    """Replaces itself by the framework's own finders at the first import from it."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in TOP_PACKAGES:
            return None
        sys.meta_path.remove(cls)
        _load_framework().install_framework(os.environ[ROOT])
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


def _load_framework() -> Any:
    sys.path.insert(0, HOST)
    try:
        return importlib.import_module("bci_framework")
    finally:
        sys.path.remove(HOST)


if os.environ.get(ROOT):
    sys.meta_path.insert(0, LazyFramework)
