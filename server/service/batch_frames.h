#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>

#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/types.pb.h"
#include "server/supervisor/leases/stream.h"

namespace bulkhead {

// Payload bytes of a batch: the whole slot for a full batch, else each tensor's filled part.
uint64_t PayloadBytes(const v1::BatchSchema& schema, uint64_t sample_count);

// Frames a batch as messages StreamResponse{part{header, offset, data}} with at most 1 MiB of data
// each. Data is not copied: the messages point into the slot, which is held until gRPC has
// destroyed the last of them. Headers are encoded by hand, compatible with loader.proto. Sets
// `batch.header`'s payload_bytes.
std::deque<grpc::ByteBuffer> FrameBatch(const v1::BatchSchema& schema, ReadyBatch batch);

}  // namespace bulkhead
