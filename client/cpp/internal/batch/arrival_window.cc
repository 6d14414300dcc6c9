#include "client/cpp/internal/batch/arrival_window.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {
namespace {

// Batches that an unordered stream may be ahead of its mark, the one at the mark included.
constexpr uint64_t kWindow = 64;

}  // namespace

ArrivalWindow::ArrivalWindow(const v1::Cursor& start, bool unordered, uint32_t world_size,
                             uint64_t batch_size, bool assigned)
    : unordered_(unordered),
      assigned_(assigned),
      world_size_(std::max<uint32_t>(world_size, 1)),
      batch_size_(batch_size),
      state_{start.epoch(), start.consumed()},
      substitutions_(start.substitutions()) {
  for (const uint32_t number : start.completed()) {
    ahead_[number] =
        State{start.epoch(), start.consumed() + (uint64_t{number} + 1) * world_size_ * batch_size_};
  }
}

absl::Status ArrivalWindow::Check(const v1::BatchHeader& header) const {
  const uint64_t sequence = header.sequence();
  if (assigned_ || sequence == mark_) return absl::OkStatus();
  if (!unordered_ || sequence < mark_ || sequence - mark_ >= kWindow) {
    return ProtocolError(
        absl::StrCat("batch ", mark_, " was due, batch ", sequence, " came",
                     unordered_ ? absl::StrCat("; it may be ahead by fewer than ", kWindow) : ""));
  }
  if (ahead_.count(sequence) != 0) {
    return ProtocolError(absl::StrCat("batch ", sequence, " came twice"));
  }
  if (header.epoch() != state_.epoch) {
    return ProtocolError(absl::StrCat("batch ", sequence, " of epoch ", header.epoch(),
                                      " came before epoch ", state_.epoch, " was complete"));
  }
  return absl::OkStatus();
}

void ArrivalWindow::Add(const v1::BatchHeader& header) {
  if (assigned_) return;
  ahead_[header.sequence()] = State{header.next_epoch(), header.next_consumed()};
  substitutions_ = header.substitutions();
  if (unordered_ && header.batches_left_in_epoch() == 0) {
    // All of the epoch has come, whichever batch was the last to come.
    mark_ = std::max(mark_, ahead_.rbegin()->first + 1);
    state_ = State{header.epoch() + 1, 0};
    ahead_.clear();
    return;
  }
  for (auto first = ahead_.begin(); first != ahead_.end() && first->first == mark_;
       first = ahead_.erase(first)) {
    state_ = first->second;
    ++mark_;
  }
}

void ArrivalWindow::Describe(v1::Cursor* cursor) const {
  cursor->set_epoch(state_.epoch);
  cursor->set_consumed(state_.consumed);
  cursor->set_substitutions(substitutions_);
  cursor->clear_completed();
  for (const auto& [sequence, state] : ahead_) {
    cursor->add_completed(static_cast<uint32_t>(sequence - mark_));
  }
  cursor->set_batch_size(ahead_.empty() ? 0 : batch_size_);
  cursor->set_world_size(ahead_.empty() ? 0 : world_size_);
}

}  // namespace bulkhead::client_internal
