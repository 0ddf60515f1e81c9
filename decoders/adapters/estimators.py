"""Estimators from files, and fitted ones as bytes: skops, which runs no code, or a pickle if it is trusted.

my.py:clf        an estimator, a torch module or an `Online` in a Python file (or module:clf)
my.py            MOABB's PIPELINES = [{"pipeline": ..., "name": ...}] in a Python file
my.yml           a pipeline of MOABB's YAML
my.skops         a fitted estimator
my.pkl, .joblib  a pickled one: only with trust
"""

import importlib
import importlib.util
import io
import sys
from pathlib import Path
from typing import Any

from decoders.adapters.online import Online, as_online
from decoders.decoder import DecoderError, format_exception

TRUSTED = ("sklearn.", "pyriemann.", "mne.decoding.", "moabb.pipelines.", "decoders.adapters.")
"""Classes of these packages are loaded from a skops file, beside those that skops itself trusts."""
PICKLES = (".pkl", ".pickle", ".joblib")
YAMLS = (".yml", ".yaml")


def load_pipeline(spec: str, *, trust: bool = False) -> Online:
    """The estimator that a specification names, see above. Raises DecoderError."""
    path = Path(spec)
    suffix = path.suffix.lower()
    if suffix in (".skops", *PICKLES, *YAMLS) and not path.is_file():
        raise DecoderError(f"there is no file {spec}")
    if suffix == ".skops":
        return _online(loads(path.read_bytes(), spec, trust=trust), spec)
    if suffix in PICKLES:
        return _online(_load_pickle(path.read_bytes(), spec, trust), spec)
    if suffix in YAMLS:
        return _online(_of_yaml(path), spec)
    where, colon, name = spec.rpartition(":")
    if not colon:
        where, name = spec, ""
    module = _import(where, spec)
    if not name or not hasattr(module, name.split(".")[0]):
        return _of_moabb_module(module, name, spec)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return _online(_made(found, spec), spec)


def _online(found: Any, spec: str) -> Online:
    made = as_online(found)
    if made is None:
        raise DecoderError(
            f"{spec} is {found!r:.80}: give an estimator with fit(X, y) and predict(X), a torch module, "
            "or decoders.adapters.online.Online(estimator, ...)"
        )
    return made


def _made(found: Any, spec: str) -> Any:
    """What a function without arguments returns, so that a file need not build what it does not use."""
    if isinstance(found, type) or not callable(found) or as_online(found) is not None:
        return found
    try:
        return found()
    except Exception as error:  # a user's code may raise anything
        raise DecoderError(f"{spec}() failed: {format_exception(error)}") from error


def _import(where: str, spec: str) -> Any:
    try:
        if not where.endswith(".py"):
            if "" not in sys.path:
                sys.path.insert(0, "")  # a user's module lies in the working directory
            return importlib.import_module(where)
        path = Path(where).resolve()
        if not path.is_file():
            raise DecoderError(f"{spec}: there is no file {where}")
        loader = importlib.util.spec_from_file_location(_module_name(path), path)
        assert loader is not None
        assert loader.loader is not None
        module = importlib.util.module_from_spec(loader)
        sys.modules[loader.name] = module  # a saved model names its classes by the module
        loader.loader.exec_module(module)
    except DecoderError:
        raise
    except Exception as error:  # a user's module may raise anything
        raise DecoderError(f"{spec} can't be imported: {format_exception(error)}") from error
    return module


def _module_name(path: Path) -> str:
    """The file's name, unless another module has it: a file moabb.py must not hide MOABB."""
    known = sys.modules.get(path.stem)
    place = getattr(known, "__file__", None)
    if known is None:
        found = importlib.util.find_spec(path.stem) if path.stem.isidentifier() else None
        place = str(path) if found is None else found.origin
    return path.stem if place and Path(place).resolve() == path else f"pipeline_{path.stem}"


def _of_moabb_module(module: Any, name: str, spec: str) -> Online:
    listed = getattr(module, "PIPELINES", None)
    entries = [listed] if isinstance(listed, dict) else listed
    if not isinstance(entries, list):
        what = f"no {name!r}" if name else "no PIPELINES; name the estimator as FILE.py:NAME"
        raise DecoderError(f"{spec}: the file has {what}")
    known = {str(entry.get("name", k)): entry for k, entry in enumerate(entries)}
    if name in known or (len(known) == 1 and not name):
        return _online((known[name] if name else entries[0])["pipeline"], spec)
    raise DecoderError(f"{spec}: choose one of its pipelines: {', '.join(known)}")


def _of_yaml(path: Path) -> Any:
    """MOABB's format: `pipeline:` is a list of `name`, `from` and `parameters`."""
    import yaml
    from sklearn.pipeline import make_pipeline

    try:
        content = yaml.safe_load(path.read_text())
        steps = [
            getattr(importlib.import_module(part["from"]), part["name"])(
                **(part.get("parameters") or {})
            )
            for part in content["pipeline"]
        ]
    except Exception as error:  # of the file, an import, or a constructor
        raise DecoderError(
            f"{path} is no pipeline of MOABB's YAML: {format_exception(error)}"
        ) from error
    return make_pipeline(*steps)


def dumps(fitted: Any, *, trust: bool = False) -> tuple[str, bytes]:
    """(format, bytes) of a fitted object: skops, or with trust a pickle where skops can't.

    Raises DecoderError.
    """
    skops_io = _skops()
    try:
        data = skops_io.dumps(fitted)
        # It was fitted here, so it is loaded without distrust, which shows whether it can be.
        skops_io.loads(data, trusted=skops_io.get_untrusted_types(data=data))
    except Exception as error:
        if not trust:
            raise DecoderError(
                f"the fitted estimator can't be saved with skops ({format_exception(error)}); "
                "--trust saves it as a pickle, which whoever loads it must trust, too"
            ) from error
        return "pickle", _pickled(fitted)
    return "skops", data


def _pickled(fitted: Any) -> bytes:
    import joblib

    buffer = io.BytesIO()
    try:
        joblib.dump(fitted, buffer)
    except Exception as error:  # of a lambda, or of an open file in it
        raise DecoderError(
            f"the fitted estimator can't be saved, as a pickle neither ({format_exception(error)}); give it "
            "functions that have a name in a module, and no lambda"
        ) from error
    return buffer.getvalue()


def loads(data: bytes, name: str, *, form: str = "skops", trust: bool = False) -> Any:
    """The object that `dumps` wrote. Raises DecoderError, for types that are not trusted too."""
    if form == "pickle":
        return _load_pickle(data, name, trust)
    skops_io = _skops()
    try:
        unknown = [
            each
            for each in skops_io.get_untrusted_types(data=data)
            if not trust and not each.startswith(TRUSTED)
        ]
        if unknown:
            raise DecoderError(
                f"{name} has types that are not trusted: {', '.join(unknown)}. If you know where the file "
                "is from, --trust loads it"
            )
        return skops_io.loads(data, trusted=skops_io.get_untrusted_types(data=data))
    except DecoderError:
        raise
    except Exception as error:  # of a damaged file, or of a library that changed
        raise DecoderError(f"{name} can't be loaded: {format_exception(error)}") from error


def _skops() -> Any:
    try:
        from skops import io as skops_io
    except ImportError as error:
        raise DecoderError(
            "saving and loading estimators needs skops: `pip install bci-stream[pipelines]`"
        ) from error
    return skops_io


def _load_pickle(data: bytes, name: str, trust: bool) -> Any:
    if not trust:
        raise DecoderError(
            f"{name} is a pickle, which can run any code when it is loaded. Save it with skops "
            "(skops.io.dump), or give --trust if you know where it is from"
        )
    import joblib

    try:
        return joblib.load(io.BytesIO(data))
    except Exception as error:  # unpickling may raise anything
        raise DecoderError(f"{name} can't be loaded: {format_exception(error)}") from error
