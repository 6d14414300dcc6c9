"""Folders where processes of a job met, and that a crash left behind: removed if nobody can be in them."""

import fcntl
import socket

import pytest

from bulkhead._service import rendezvous

MEETING = "bulkhead-0123456789abcdef"


def stray(runtime, *parts, name=MEETING):
    folder = runtime / name
    folder.mkdir(mode=0o700)
    for part in parts:
        (folder / part).touch()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "abcdef.sock"))
    return folder, listener


SERVICE = ("abcdef.lock", "abcdef.log", "spawn", "current")


def test_a_meeting_folder_without_users_is_removed(runtime):
    stray(runtime, *SERVICE)[1].close()
    (runtime / "bulkhead-0123456789abcde0").mkdir(mode=0o700)
    rendezvous.remove_stale()
    assert list(runtime.iterdir()) == []


@pytest.mark.parametrize("held", ["spawn", "abcdef.lock"])
def test_a_meeting_folder_with_somebody_in_it_is_left(runtime, held):
    folder, listener = stray(runtime, *SERVICE)
    listener.close()
    before = sorted(runtime.rglob("*"))
    with open(folder / held) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        rendezvous.remove_stale()
        assert sorted(runtime.rglob("*")) == before


def test_a_meeting_folder_whose_service_has_not_yet_seen_that_it_is_alone_is_left(runtime):
    folder, listener = stray(runtime, *SERVICE)
    listener.listen()
    before = sorted(runtime.rglob("*"))
    rendezvous.remove_stale()
    assert sorted(runtime.rglob("*")) == before
    listener.close()


@pytest.mark.parametrize(
    "extra, name",
    [
        ("thesis.txt", MEETING),
        ("abcdeg.lock", MEETING),
        ("abcdef.lock", "bulkhead-of-mine12345678"),
    ],
)
def test_what_is_not_certainly_a_meeting_folder_is_left(runtime, extra, name):
    stray(runtime, *SERVICE, extra, name=name)[1].close()
    before = sorted(runtime.rglob("*"))
    rendezvous.remove_stale()
    assert sorted(runtime.rglob("*")) == before


def test_what_others_may_read_is_left(runtime):
    folder, listener = stray(runtime, *SERVICE)
    listener.close()
    folder.chmod(0o755)
    rendezvous.remove_stale()
    assert (folder / "abcdef.lock").exists()
