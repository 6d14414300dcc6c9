#include "server/service/limits/request_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/os/memory/process_memory.h"

namespace bulkhead {
namespace {

// A request of this size, or one that holds this much memory, may leave megabytes scattered over
// the heap of its thread. The turn of a request on another thread would take as much again.
constexpr uint64_t kWorthTrimming = uint64_t{16} << 10;

// How often a client that has to wait for what it did before sees whether the service drains.
constexpr absl::Duration kDrainLook = absl::Milliseconds(250);

}  // namespace

absl::StatusOr<RequestMemory::Place> RequestMemory::Enter(const std::string& client, uint64_t bytes,
                                                          const std::function<bool()>& gone) {
  absl::MutexLock lock(&mutex_);
  BULKHEAD_RETURN_IF_ERROR(Take(client, bytes));
  ++waiting_;
  AwaitTurn(client);
  --waiting_;
  if (draining_ || gone()) {
    GiveBack(client, bytes);
    return absl::CancelledError(draining_ ? "the service is shutting down" : "the client is gone");
  }
  turn_taken_ = true;
  return Place(this, client, bytes);
}

void RequestMemory::AwaitTurn(const std::string& client) {
  const auto is_free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !turn_taken_ || draining_;
  };
  while (true) {
    mutex_.Await(absl::Condition(&is_free));
    const absl::Duration wait = pace_.Wait(client, MonotonicNanos());
    if (draining_ || wait == absl::ZeroDuration()) return;
    mutex_.Unlock();
    absl::SleepFor(std::min(wait, kDrainLook));
    mutex_.Lock();
  }
}

absl::Status RequestMemory::Take(const std::string& client, uint64_t bytes) {
  const auto found = of_clients_.find(client);
  const uint64_t of_client = found == of_clients_.end() ? 0 : found->second;
  const auto refusal = [&](const std::string& others, uint64_t held, uint64_t most,
                           absl::string_view whose) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, reason::kTooManyCalls,
        absl::StrCat("this request takes ", FormatBytes(bytes), " and ", others, " ",
                     FormatBytes(held), "; the service has ", FormatBytes(most), " for requests",
                     whose, ". Try again, or write patterns instead of lists of files"));
  };
  if (bytes > kMostBytesOfOne - of_client) {
    return refusal("others of " + client, of_client, kMostBytesOfOne, " of one client");
  }
  if (bytes > kMostBytes - bytes_) return refusal("those of others", bytes_, kMostBytes, "");
  bytes_ += bytes;
  if (bytes > 0) of_clients_[client] += bytes;
  return absl::OkStatus();
}

void RequestMemory::GiveBack(const std::string& client, uint64_t bytes) {
  bytes_ -= bytes;
  const auto found = of_clients_.find(client);
  if (found == of_clients_.end()) return;
  found->second -= bytes;
  if (found->second == 0) of_clients_.erase(found);
}

RequestMemory::Place& RequestMemory::Place::operator=(Place&& other) noexcept {
  Leave();
  memory_ = std::exchange(other.memory_, nullptr);
  client_ = std::move(other.client_);
  bytes_ = other.bytes_;
  cpu_ns_ = other.cpu_ns_;
  has_turn_ = other.has_turn_;
  return *this;
}

void RequestMemory::Place::EndTurn() {
  memory_->turn_taken_ = has_turn_ = false;
  const absl::Duration used = absl::Nanoseconds(ThreadCpuNanos() - cpu_ns_);
  memory_->pace_.Take(client_, used / kShareOfOne, MonotonicNanos());
}

absl::Status RequestMemory::Place::Understood(uint64_t bytes) {
  if (memory_ == nullptr) return absl::OkStatus();
  if (std::max(bytes_, bytes) > kWorthTrimming) TrimHeap();
  absl::MutexLock lock(&memory_->mutex_);
  EndTurn();
  memory_->GiveBack(client_, std::exchange(bytes_, 0));
  BULKHEAD_RETURN_IF_ERROR(memory_->Take(client_, bytes));
  bytes_ = bytes;
  return absl::OkStatus();
}

void RequestMemory::Place::Leave() {
  if (memory_ == nullptr) return;
  if (has_turn_ && bytes_ > kWorthTrimming) TrimHeap();
  absl::MutexLock lock(&memory_->mutex_);
  if (has_turn_) EndTurn();
  memory_->GiveBack(client_, bytes_);
  memory_ = nullptr;
}

}  // namespace bulkhead
