#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bulkhead/credentials.h"
#include "bulkhead/loader.h"
#include "bulkhead/v1/loader.pb.h"
#include "client/cpp/internal/arena/arena_door.h"
#include "client/cpp/internal/batch/batch_data.h"

namespace bulkhead::client_internal {

// The options of a stream. They do not change after it is opened.
struct StreamConfig {
  std::string target;
  Credentials credentials;  // those of ResolveTarget
  v1::Open open;
  // Through which the service may give batches in shared memory; null: none.
  std::shared_ptr<ArenaDoor> door;
  // Why there is no door, where one was wished for.
  std::string no_door_reason;
  // What the first batch's sequence number is for the caller; on the wire it is 0.
  uint64_t first_sequence = 0;
  absl::Duration silence = absl::Seconds(10);
  absl::Duration held_deadline = absl::Seconds(60);
  std::function<void(const SubstitutionEvent&)> on_substitution;
  std::function<void(const QuarantineEvent&)> on_quarantine;
  std::function<void(const HangEvent&)> on_hang;
  std::function<void(const NoteEvent&)> on_note;
  std::function<void(const std::string&)> on_warning;
  // With Open.assigned the stream's batches go here, by their numbers on the wire, and not to Next;
  // called on the reader thread, as are the next two.
  std::function<void(std::unique_ptr<BatchData>)> on_batch;
  // The service leaves out a record from the next batch on.
  std::function<void(const std::string& record)> on_left_out;
  // The stream is over, by which status; it is the last call.
  std::function<void(const absl::Status&)> on_end;
  // The name in the service's certificate, if that is not the target's.
  std::string authority;
  // Explains a lost service, such as "it was killed by signal 9"; may be empty.
  std::function<std::string()> post_mortem;
};

}  // namespace bulkhead::client_internal
