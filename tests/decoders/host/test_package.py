"""What a team hands in is laid out below one folder, whole, bounded, and without a way out."""

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decoders.host.limits import PackageError, SubmissionLimits
from decoders.host.package import lay_out

Pack = Callable[[Path, dict[str, bytes]], Path]


def as_zip(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "team.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def as_tar(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "team.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def as_folder(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "team"
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def tree(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


FILES = {"Algorithm/A.py": b"1", "Algorithm/model.npz": bytes(5000), "config.json": b"{}"}


@pytest.mark.parametrize("pack", [as_zip, as_tar, as_folder])
def test_folders_and_archives_are_laid_out_alike(pack: Pack, tmp_path: Path) -> None:
    assert tree(lay_out(pack(tmp_path, FILES), tmp_path / "into")) == FILES


@pytest.mark.parametrize("pack", [as_zip, as_tar])
def test_a_folder_around_the_submission_is_stepped_into(pack: Pack, tmp_path: Path) -> None:
    wrapped = {f"team/final v2/{name}": content for name, content in FILES.items()}
    assert tree(lay_out(pack(tmp_path, wrapped), tmp_path / "into")) == FILES


def test_a_framework_s_own_folder_around_its_package_of_the_same_name_is_stepped_into(
    tmp_path: Path,
) -> None:
    files = {"main.py": b"", "Algorithm/config/AlgorithmConfig.yml": b"", "Algorithm/A.py": b"1"}
    wrapped = {f"Algorithm/{name}": content for name, content in files.items()}
    assert tree(lay_out(as_tar(tmp_path, wrapped), tmp_path / "into")) == files


def test_a_bare_algorithm_folder_is_put_back_where_it_belongs(tmp_path: Path) -> None:
    bare = {"config/AlgorithmConfig.yml": b"", "method/impl/Mine.py": b"1"}
    root = lay_out(as_folder(tmp_path, bare), tmp_path / "into")
    assert tree(root) == {f"Algorithm/{name}": content for name, content in bare.items()}


G3_HEAD = b"from Algorithm.AlgorithmInterface import AlgorithmInterface\n"
G4_HEAD = b"from Algorithm.method.interface.AlgorithmInterface import AlgorithmInterface\n"


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"AlgorithmImplement.py": G3_HEAD, "net.py": b"", "w.npz": b"1"}, "Algorithm/impl"),
        ({"A.py": b"from Algorithm.impl.net import f\n", "net.py": b""}, "Algorithm/impl"),
        ({"Mine.py": G4_HEAD, "net.py": b""}, "Algorithm/method/impl"),
        ({"A.py": G3_HEAD + b"from Algorithm.net import f\n", "net.py": b""}, "Algorithm"),
        ({"A.py": G3_HEAD, "impl/B.py": b""}, "Algorithm"),
    ],
)
def test_the_inside_of_the_folder_of_the_team_s_own_files_is_put_back_there(
    files: dict[str, bytes], place: str, tmp_path: Path
) -> None:
    root = lay_out(as_folder(tmp_path, files), tmp_path / "into")
    assert tree(root) == {f"{place}/{name}": content for name, content in files.items()}


def test_cache_files_are_kept_for_their_tags(tmp_path: Path) -> None:
    files = FILES | {"Algorithm/__pycache__/A.cpython-38.pyc": b"x"}
    assert tree(lay_out(as_zip(tmp_path, files), tmp_path / "into")) == files


def test_what_archivers_leave_behind_is_left_behind(tmp_path: Path) -> None:
    litter = {"__MACOSX/Algorithm/._A.py": b"", "Algorithm/._A.py": b"", "Algorithm/.git/x": b""}
    assert tree(lay_out(as_zip(tmp_path, FILES | litter), tmp_path / "into")) == FILES


@pytest.mark.parametrize("pack", [as_zip, as_tar])
@pytest.mark.parametrize(
    "name", ["../out", "Algorithm/../../out", "/tmp/out", "..\\out", "C:\\out"]
)
def test_no_name_leads_outside(name: str, pack: Pack, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="points outside"):
        lay_out(pack(tmp_path, {name: b"x"}), tmp_path / "deep" / "into")
    assert not (tmp_path / "deep" / "out").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path) -> None:
    path = tmp_path / "team.tar"
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo("Algorithm/A.py")
        entry.type, entry.linkname = kind, "/etc/passwd"
        archive.addfile(entry)
    with pytest.raises(PackageError, match=r"A\.py|can't be read"):
        lay_out(path, tmp_path / "into")
    assert not (tmp_path / "into/Algorithm/A.py").exists()


def test_a_link_in_a_folder_is_refused(tmp_path: Path) -> None:
    folder = as_folder(tmp_path, FILES)
    os.symlink("/etc/passwd", folder / "Algorithm/secret")
    with pytest.raises(PackageError, match="Algorithm/secret is no plain file"):
        lay_out(folder, tmp_path / "into")


@pytest.mark.parametrize("pack", [as_zip, as_tar, as_folder])
def test_size_is_counted_as_it_is_written(pack: Pack, tmp_path: Path) -> None:
    bomb = {"Algorithm/A.py": bytes(4 << 20)}
    with pytest.raises(PackageError, match="1 MiB in 20000 files and folders are allowed"):
        lay_out(pack(tmp_path, bomb), tmp_path / "into", SubmissionLimits(package_bytes=1 << 20))
    written = sum(len(content) for content in tree(tmp_path / "into").values())
    assert written <= 3 << 20


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="in 2 files and folders are allowed"):
        lay_out(as_zip(tmp_path, FILES), tmp_path / "into", SubmissionLimits(package_files=2))


@pytest.mark.parametrize(
    ("name", "content", "observed"),
    [("team.zip", b"PK\3\4rubbish", "not a folder"), ("team.rar", b"Rar!", "not a folder")],
)
def test_what_is_no_archive_is_reported(
    name: str, content: bytes, observed: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PackageError, match=observed):
        lay_out(tmp_path / name, tmp_path / "into")


def test_absent_and_empty_submissions_are_reported(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no such submission"):
        lay_out(tmp_path / "nothing", tmp_path / "into")
    (tmp_path / "empty").mkdir()
    with pytest.raises(PackageError, match="is empty"):
        lay_out(tmp_path / "empty", tmp_path / "into")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), pack=st.sampled_from([as_zip, as_tar]))
def test_a_damaged_archive_is_an_error_of_ours_or_the_whole_submission(
    data: st.DataObject, pack: Pack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = pack(folder, FILES)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    try:
        root = lay_out(path, folder / "into")
    except PackageError:
        return
    assert root.is_relative_to(folder)


@pytest.mark.parametrize("name", [".", "./."])
def test_an_entry_without_a_name_is_reported_as_theirs(name: str, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="points outside"):
        lay_out(as_tar(tmp_path, {**FILES, name: b"x"}), tmp_path / "into")


def test_an_archive_that_is_broken_inside_its_compression_is_reported_as_theirs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "team.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("Algorithm/A.py", bytes(range(256)) * 40)
    whole = bytearray(path.read_bytes())
    whole[60:90] = b"\xff" * 30
    path.write_bytes(whole)
    with pytest.raises(PackageError, match="can't be read"):
        lay_out(path, tmp_path / "into")
