"""Message classes, made from the serialized descriptors in a pool of their own.

A pool of its own: a trainer's process may hold other messages of the same names, such as Google's,
or another version of this package's.
"""

import pathlib

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_POOL = descriptor_pool.DescriptorPool()


def _load() -> None:
    data = pathlib.Path(__file__).with_name("descriptors.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        _POOL.AddSerializedFile(file.SerializeToString())


def _message(name: str):
    descriptor = _POOL.FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):  # protobuf 4.22 and later
        return message_factory.GetMessageClass(descriptor)
    return _FACTORY.GetPrototype(descriptor)


_load()
_FACTORY = (
    None
    if hasattr(message_factory, "GetMessageClass")
    else message_factory.MessageFactory(_POOL)
)

StreamRequest = _message("bulkhead.v1.StreamRequest")
StreamResponse = _message("bulkhead.v1.StreamResponse")
BatchHeader = _message("bulkhead.v1.BatchHeader")
PipelineSpec = _message("bulkhead.v1.PipelineSpec")
Open = _message("bulkhead.v1.Open")
Cursor = _message("bulkhead.v1.Cursor")
GetStatusRequest = _message("bulkhead.v1.GetStatusRequest")
GetStatusResponse = _message("bulkhead.v1.GetStatusResponse")
PutDatasetRequest = _message("bulkhead.v1.PutDatasetRequest")
PutDatasetResponse = _message("bulkhead.v1.PutDatasetResponse")
ArenaServerMessage = _message("bulkhead.v1.ArenaServerMessage")
ArenaClientMessage = _message("bulkhead.v1.ArenaClientMessage")
RpcStatus = _message("bulkhead.internal.v1.RpcStatus")
RpcErrorInfo = _message("bulkhead.internal.v1.RpcErrorInfo")

TRANSPORT_UNSPECIFIED = 0
TRANSPORT_GRPC = 1
TRANSPORT_SHM = 2
DTYPE_UINT8 = 1
DTYPE_BYTES = 12
KIND_SUBSTITUTED = 1
KIND_QUARANTINED = 2
KIND_HUNG = 3
# Of bulkhead.v1.Note.
LEVEL_DEBUG = 1
LEVEL_WARNING = 3
LEVEL_ERROR = 4

# Names of bulkhead.v1.DType by number: "float32" and the like.
DTYPE_NAMES = {
    value.number: value.name[len("DTYPE_") :].lower()
    for value in _POOL.FindEnumTypeByName("bulkhead.v1.DType").values
}
# Of bulkhead.v1.Packing.
PACKING_ROWS = 1
PACKING_EXTENTS = 2
PACKING_EXTENTS_CHANNELS_FIRST = 3
PACKING_NORMALIZED_BY_CLIENT = 4
