"""Makes the framework's modules importable in further interpreters that a submission starts.

Copied into the sandbox as `sitecustomize.py`, in the folder of PYTHONPATH: Python imports it at its
start, in workers of multiprocessing (spawn, forkserver) and of joblib, and in plain subprocesses. The
framework itself (`shim.py`, one folder above) is loaded when a name of it is first imported.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

ROOT = "BCI_FRAMEWORK_ROOT"
"""Set by the submission's first process, which has the framework already, for its children."""
TOP_PACKAGES = ("Algorithm", "AlgorithmImplement", "AlgorithmSystem")


class LazyFramework:
    """Replaces itself by the framework's own finders at the first import from it."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in TOP_PACKAGES:
            return None
        sys.meta_path.remove(cls)
        _load_shim().install_framework(os.environ[ROOT])
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


def _load_shim() -> Any:
    file = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "shim.py")
    spec = importlib.util.spec_from_file_location("bci_shim", file)
    assert spec is not None
    assert spec.loader is not None
    shim = importlib.util.module_from_spec(spec)
    sys.modules["bci_shim"] = shim
    spec.loader.exec_module(shim)
    return shim


if os.environ.get(ROOT):
    sys.meta_path.insert(0, LazyFramework)
