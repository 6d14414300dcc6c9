#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/internal/fleet/replicas.h"
#include "client/cpp/internal/stream/stream.h"

namespace bulkhead::client_internal {

// One replica of a fleet. Guarded by the fleet's mutex.
//
//   away ──keeper──▶ opening ──opened, the same stream──▶ here ──lost, left out, …──▶ away
struct Member {
  enum class State { kAway, kOpening, kHere };
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
  static constexpr absl::Duration kLongestPause = absl::Seconds(2);
  // Of a replica that answers, and cannot serve.
  static constexpr absl::Duration kLeftOutPause = absl::Seconds(30);

  uint64_t id = 0;
  Replica replica;
  State state = State::kAway;
  uint64_t attempt = 0;  // which of its streams is the present one
  std::shared_ptr<Stream> stream;
  uint64_t base = 0;  // the batch that is number 0 on the wire
  std::string boot_id;
  std::set<std::string> records;  // its quarantine set, with which its next batch is made
  absl::Duration pause;           // before it is opened again
  absl::Status error;             // why it is away
  bool answered = false;

  bool here() const { return state == State::kHere; }
  // Whether it is the service of that boot id, or was until another stream of this consumer took
  // its stream's place.
  bool IsService(absl::string_view boot) const {
    return boot_id == boot && (here() || IsOfAnotherAddress(error));
  }
  // Whether another stream of this consumer took the place of the one that failed so: what a
  // service says then (server/service/stream_directory.cc).
  static bool IsOfAnotherAddress(const absl::Status& error) {
    return absl::StrContains(error.message(), "the consumer connected again");
  }
  // It was left out, for another reason than that it cannot be reached now.
  bool cannot_serve() const { return !error.ok() && !Passes(error); }

  // Whether a replica with that error may well be back in a moment.
  static bool Passes(const absl::Status& error);
};

}  // namespace bulkhead::client_internal
