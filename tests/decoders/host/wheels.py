"""Wheels and a registry of them, a folder that a test writes: no other one is asked."""

import base64
import hashlib
import tempfile
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from decoders.host import install, venv


def make_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    files: dict[str, str] | None = None,
    requires: Sequence[str] = (),
    tag: str = "py3-none-any",
) -> Path:
    """Write a wheel whose files are given by their names in it, such as `NAME-1.0.data/data/x`."""
    info = f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {one}\n" for one in requires)
    content = {
        f"{name}.py": "",
        **(files or {}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    content[f"{info}/RECORD"] = (
        "".join(f"{path},sha256={_digest(text)},{len(text)}\n" for path, text in content.items())
        + f"{info}/RECORD,,\n"
    )
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in content.items():
            archive.writestr(member, text)
    links = (f'<a href="{wheel.name}">{wheel.name}</a>' for wheel in sorted(place.glob("*.whl")))
    (place / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


INSTALLERS = ["uv", "pip"]
make_pip = venv._installer
_pip_folder = tempfile.TemporaryDirectory(prefix="bci-test-pip-", ignore_cleanup_errors=True)


@cache
def _shared_pip(interpreter: Path) -> Path:
    """The environment that holds pip, made once for all tests: it takes seconds."""
    return make_pip(interpreter, Path(_pip_folder.name))


def install_from(folder: Path, monkeypatch: pytest.MonkeyPatch, installer: str = "uv") -> None:
    """Make this folder the only registry; installer: uv or pip."""
    folder.mkdir(exist_ok=True)
    use_registry(folder.as_uri(), monkeypatch)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(folder.parent / "uv-cache"))
    if installer == "pip":
        monkeypatch.setattr(install, "uv_program", lambda: None)
        monkeypatch.setattr(venv, "_installer", lambda python, _: _shared_pip(python))
    elif install.uv_program() is None:
        pytest.skip("uv is not installed")


def use_registry(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv("UV_DEFAULT_INDEX", address)
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
