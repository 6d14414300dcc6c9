#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "bulkhead/loader.h"
#include "bulkhead/v1/loader.pb.h"
#include "client/cpp/internal/arena/arena_mapping.h"
#include "client/cpp/internal/batch/assembler.h"
#include "client/cpp/internal/batch/batch_data.h"
#include "client/cpp/internal/rpc/wire.h"
#include "client/cpp/internal/stream/inbox.h"
#include "client/cpp/internal/stream/stream_config.h"

namespace bulkhead::client_internal {

// Makes batches of a stream's messages. Checks everything: what the protocol does not allow is an
// error. Batches and progress go to the inbox, events to the config's callbacks. Owned by the
// reader thread; other threads may call info and opened once the inbox is open.
class Receiver {
 public:
  // `config` and `inbox` must outlive it. `release` is called with a batch's sequence number on the
  // wire when the batch is destroyed, by any thread, even after the receiver is gone.
  Receiver(const StreamConfig& config, Inbox* inbox, std::function<void(uint64_t)> release);

  // An error ends the stream.
  absl::Status OnMessage(const grpc::ByteBuffer& message);
  // The service ended the stream as it should. INTERNAL (PROTOCOL_VIOLATION) when it was not
  // opened, or a batch is not whole; UNAVAILABLE (SERVICE_UNAVAILABLE) when batches are missing.
  absl::Status OnEnd() const;
  // The stream is over: slots that nobody holds are the service's again.
  void RetireArena();

  // Whether batches come in slots now.
  bool has_arena() const { return arena_ != nullptr; }
  const StreamInfo& info() const { return info_; }
  const v1::Opened& opened() const { return opened_; }

 private:
  absl::Status OnPart(const PartView& part);
  absl::Status OnSlot(const v1::SlotBatch& slot);
  absl::Status OnOther(const std::string& serialized);
  absl::Status OnSampleEvent(const v1::SampleEvent& event);
  absl::Status OnHeartbeat(const v1::Heartbeat& heartbeat);
  absl::Status OnOpened(const v1::Opened& opened);
  absl::Status TakeArena(const v1::Opened& opened, const BatchLayout& layout);
  void Describe(const v1::Opened& opened, const BatchLayout& layout);
  Inbox::Limits LimitsOf(const v1::Opened& opened) const;
  void Deliver(std::unique_ptr<BatchData> batch);

  const StreamConfig& config_;
  Inbox* const inbox_;
  const std::function<void(uint64_t)> release_;
  StreamInfo info_;
  v1::Opened opened_;
  std::shared_ptr<BatchContext> batch_context_;
  std::optional<Assembler> assembler_;
  std::shared_ptr<const ArenaMapping> arena_;
};

}  // namespace bulkhead::client_internal
