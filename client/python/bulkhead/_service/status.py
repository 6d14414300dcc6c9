"""Questions to a running service, for monitors and notebooks."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Optional

from .. import errors
from .._rpc import descriptor, grpc_library, live_streams, proto
from .._rpc.connection import Connection
from .._rpc.credentials import Credentials
from .endpoint import check_target
from .target_file import one_service


def service_status(
    target: str, timeout: float = 10.0, *, credentials: Optional[Credentials] = None, fresh: bool = False
) -> Dict[str, Any]:
    """What the service at `target` ("host:port", "unix:/path" or a target file) is doing, by its GetStatus.

    Fields are named as in loader.proto: `workers` with pid, state and memory, `streams`, `recent_exits`,
    `supervisor`, `samples_produced`, `verdicts` and others. Sizes are bytes, times seconds since 1970, states the
    names of their enum. Blocks for at most `timeout` seconds; ServiceUnavailable if there is no answer,
    AccessDenied if the service gives none to these `credentials`. Each `usage` of a process tells its
    `age_seconds`; with `fresh` memory is read anew, which takes the service some 15 ms for each GiB.
    """
    try:
        return asked(target, timeout, credentials, fresh)
    except errors.ServiceUnavailable as failure:
        raise failure._final() from None


def asked(target: str, timeout: float, credentials: Optional[Credentials], fresh: bool = False) -> Dict[str, Any]:
    """service_status, with errors that are not final."""
    address, known = one_service(target, credentials)
    check_target(address)
    assert address is not None
    live_streams.check_fork()
    grpc = grpc_library.load()
    options = [("grpc.use_local_subchannel_pool", 1)]
    with contextlib.closing(Connection(address, known, options)) as connection:
        ask = connection.channel.unary_unary(
            "/bulkhead.v1.Loader/GetStatus",
            request_serializer=proto.GetStatusRequest.SerializeToString,
            response_deserializer=proto.GetStatusResponse.FromString,
        )
        try:
            answer = ask(proto.GetStatusRequest(fresh_memory=fresh), timeout=timeout)
        except grpc.RpcError as error:
            failure = errors.from_rpc(error, address)
            if isinstance(failure, errors.AccessDenied):
                raise failure from None
            unanswered = errors.ServiceUnavailable(
                f"the service at {address} does not say how it is: {error.details()}",
                metadata={"target": address},
            )
            raise connection.explain(unanswered) from None
    return _to_dict(answer)


def _to_dict(message) -> Dict[str, Any]:
    """All fields, the unset ones with their defaults, `optional` ones with None; times as seconds since 1970, enums by name.

    Not json_format: its options have other names from one protobuf version to the next.
    """
    return {
        field.name: [_plain(field, item) for item in getattr(message, field.name)]
        if descriptor.is_repeated(field)
        else None
        if descriptor.is_optional(field) and not message.HasField(field.name)
        else _plain(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
    }


def _plain(field, value) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            return value.seconds + value.nanos / 1e9
        return _to_dict(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return value
