#include "server/os/files/storage_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/event_loop.h"
#include "server/os/monotonic_wait.h"

namespace bulkhead {
namespace {

thread_local StorageWatch::Caller* caller_of_this_thread = nullptr;

absl::Status StorageStalled(const std::string& path, const std::string& what) {
  return MakeError(absl::StatusCode::kUnavailable, reason::kStorageStalled,
                   absl::StrCat(path, ": ", what, ". Repair the mount and open the stream again"),
                   {{"file", path}});
}

}  // namespace

absl::Status StorageWatch::Caller::Stalled() const {
  absl::MutexLock lock(&mutex_);
  if (path_.empty()) return absl::OkStatus();
  const absl::Duration silent = absl::Nanoseconds(MonotonicNanos() - since_ns_);
  if (silent < patience_) return absl::OkStatus();
  return StorageStalled(
      path_, absl::StrCat("the storage has not answered for ", absl::ToInt64Seconds(silent), " s"));
}

StorageWatch::Scope::Scope(StorageWatch* watch, std::shared_ptr<Caller> caller)
    : caller_(std::move(caller)) {
  caller_->watch_ = watch;
  caller_of_this_thread = caller_.get();
}

StorageWatch::Scope::~Scope() { caller_of_this_thread = nullptr; }

absl::Status StorageWatch::Begin(const std::string& path, std::list<Call>::iterator& call) {
  const int64_t patience_ns = absl::ToInt64Nanoseconds(config_.patience);
  const int64_t deadline_ns = MonotonicNanos() + patience_ns;
  absl::MutexLock lock(&mutex_);
  const auto has_room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return calls_.size() < config_.most_calls;
  };
  while (!has_room()) {
    const int64_t now_ns = MonotonicNanos();
    // If all calls ahead hang, this one will not get its turn.
    const bool all_hang = now_ns - calls_.back().since_ns >= patience_ns;
    if (all_hang || now_ns >= deadline_ns) {
      return StorageStalled(path, absl::StrCat("it was not accessed, because ", calls_.size(),
                                               " storage calls already hang, the oldest for ",
                                               (now_ns - calls_.front().since_ns) / 1'000'000'000,
                                               " s at ", calls_.front().path));
    }
    AwaitFor(mutex_, has_room, absl::Nanoseconds(deadline_ns - now_ns));
  }
  call = calls_.insert(calls_.end(), {path, MonotonicNanos()});
  return absl::OkStatus();
}

void StorageWatch::End(std::list<Call>::iterator call) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(call);
}

StorageCall::StorageCall(const std::string& path) : caller_(caller_of_this_thread) {
  if (caller_ == nullptr) return;
  {
    absl::MutexLock lock(&caller_->mutex_);
    if (!caller_->path_.empty()) {  // inside another call
      caller_ = nullptr;
      return;
    }
    caller_->path_ = path.empty() ? "." : path;
    caller_->since_ns_ = MonotonicNanos();
    caller_->patience_ = caller_->watch_->config_.patience;
  }
  status_ = caller_->watch_->Begin(path, call_);
  begun_ = status_.ok();
}

StorageCall::~StorageCall() {
  if (caller_ == nullptr) return;
  if (begun_) caller_->watch_->End(call_);
  absl::MutexLock lock(&caller_->mutex_);
  caller_->path_.clear();
}

}  // namespace bulkhead
