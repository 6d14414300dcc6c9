"""Who may listen at a Unix socket. client/conformance/test_tls.py asks a real service of another user."""

import pytest

from bulkhead import errors
from bulkhead._rpc import socket_user

OWN, STRANGER = 1000, 54321


@pytest.mark.parametrize("user, allowed", [
    (OWN, None), (0, None), (STRANGER, "54321"), (OWN, "54321"), (OWN, "no-such-user"),
])  # fmt: skip
def test_the_own_user_root_and_the_named_one_are_trusted(user, allowed):
    socket_user.check_user(user, OWN, "/run/s.sock", allowed)


@pytest.mark.parametrize("allowed", [None, "54322", "root"])
def test_nobody_else_is(allowed):
    with pytest.raises(errors.UntrustedService) as raised:
        socket_user.check_user(STRANGER, OWN, "/run/s.sock", allowed)
    others = f" nor {allowed}" if allowed else ""
    assert f"user 54321 listens at /run/s.sock, neither this process's user 1000 nor root{others}." in str(raised.value)
    assert "set BULKHEAD_SOCKET_USER=54321" in str(raised.value)


def test_a_name_that_nobody_has_is_a_wrong_argument():
    with pytest.raises(errors.InvalidArgument, match="there is no user 'no-such-user'"):
        socket_user.check_user(STRANGER, OWN, "/run/s.sock", "no-such-user")
