"""Output files appear complete or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from glasswood.base.files import replacing


def test_the_file_appears_at_the_end(tmp_path):
    target = tmp_path / "a.txt"
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path
        assert not target.exists()
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_an_existing_file_is_replaced_at_the_end(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with replacing(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), SystemExit(143)])
def test_an_error_leaves_everything_as_it_was(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")

    def fail():
        with replacing(target) as temporary:
            temporary.write_text("half of the n")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_temporary_file_that_is_gone_already(tmp_path):
    def fail():
        with replacing(tmp_path / "a.txt") as temporary:
            temporary.unlink()

    with pytest.raises(FileNotFoundError):
        fail()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_the_mode_is_that_of_a_new_file(tmp_path, umask):
    previous = os.umask(umask)
    try:
        with replacing(tmp_path / "a.txt") as temporary:
            temporary.write_text("")
        (tmp_path / "b.txt").write_text("")
    finally:
        os.umask(previous)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.txt", "b.txt")]
    assert modes[0] == modes[1] == 0o666 & ~umask


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    def fail():
        with replacing(tmp_path / "none" / "a.txt"):
            pass

    with pytest.raises(FileNotFoundError, match=r"the folder .*none does not exist; create it first"):
        fail()


def full(path):
    with replacing(path) as temporary, open(temporary, "wb"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_errors_name_the_file_that_was_asked_for(tmp_path, monkeypatch):
    with pytest.raises(OSError, match="No space left on device") as error:
        full(tmp_path / "a.txt")
    assert error.value.filename == str(tmp_path / "a.txt")

    def refuse(path, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(PermissionError, match="Permission denied") as error:
        full(tmp_path / "b.txt")
    assert error.value.filename == str(tmp_path / "b.txt")


def test_errors_of_other_files_stay(tmp_path):
    with pytest.raises(FileNotFoundError, match="other"), replacing(tmp_path / "a.txt"):
        (tmp_path / "other").read_text()


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_what_replaces_a_private_file_is_private_while_it_is_written(tmp_path):
    """It was readable to others until it was complete."""
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    with replacing(path) as temporary:
        assert temporary.stat().st_mode & 0o777 == 0o600
        temporary.write_text("new")
    assert path.stat().st_mode & 0o777 == 0o600
