#ifndef BULKHEAD_SERVER_SERVICE_BATCH_FRAMES_H_
#define BULKHEAD_SERVER_SERVICE_BATCH_FRAMES_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <deque>

#include "bulkhead/v1/loader.pb.h"
#include "bulkhead/v1/types.pb.h"
#include "server/supervisor/stream.h"

namespace bulkhead {

// Bytes of a batch that travel: for a full batch its memory as it lies, for a smaller one each
// tensor's filled part.
uint64_t PayloadBytes(const v1::BatchSchema& schema, uint64_t sample_count);

// A batch as messages on the wire: StreamResponse{part{header, offset, data}} of at most 1 MiB of
// data each, which is never copied: the messages point into the slot, and the slot is held until
// gRPC has destroyed the last of them. The headers are encoded by hand around the external bytes,
// compatible with loader.proto. `batch.header` gets payload_bytes.
std::deque<grpc::ByteBuffer> FrameBatch(const v1::BatchSchema& schema, ReadyBatch batch);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_BATCH_FRAMES_H_
