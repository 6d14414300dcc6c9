#include "client/cpp/internal/healing_stream.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/internal/error.h"

namespace bulkhead::client_internal {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// An embedded service that was lost so often in a row without giving a batch dies of what it
// serves.
constexpr int kMostEmbeddedLosses = 5;
constexpr size_t kMostTold = 1000;

// Whether another connection may help.
bool IsLost(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  return reason == client_reason::kServiceUnavailable || reason == "SHUTTING_DOWN" ||
         reason == client_reason::kServiceStartFailed;
}

absl::Status Closed() {
  return MakeClientError(absl::StatusCode::kCancelled, client_reason::kLoaderClosed,
                         "the loader was closed");
}

// CURSOR_MISMATCH when the stream would not go on with the same samples and bytes.
absl::Status CheckSame(const v1::Opened& before, const v1::Opened& now) {
  std::vector<std::string> changed;
  if (before.cursor().order_fingerprint() != now.cursor().order_fingerprint()) {
    changed.emplace_back("the data or its order");
  }
  if (before.cursor().bytes_fingerprint() != now.cursor().bytes_fingerprint()) {
    changed.emplace_back("the processing");
  }
  if (before.samples_per_epoch() != now.samples_per_epoch()) {
    changed.push_back(absl::StrCat("the number of samples (", before.samples_per_epoch(), ", now ",
                                   now.samples_per_epoch(), ")"));
  }
  if (before.schema().SerializeAsString() != now.schema().SerializeAsString()) {
    changed.emplace_back("the outputs");
  }
  if (changed.empty()) return absl::OkStatus();
  return MakeClientError(
      absl::StatusCode::kFailedPrecondition, "CURSOR_MISMATCH",
      absl::StrCat("after the connection was lost the service offers another stream; changed: ",
                   absl::StrJoin(changed, ", ")));
}

}  // namespace

HealingStream::HealingStream(Config config) : config_(std::move(config)), pause_(kFirstPause) {
  absl::MutexLock lock(&mutex_);
  stream_ = Stream::Start(MakeConfig(config_.open, 0));
}

HealingStream::~HealingStream() { Close(); }

Stream::Config HealingStream::MakeConfig(v1::Open open, uint64_t first_sequence) {
  Stream::Config config;
  config.target = config_.endpoint->target();
  config.open = std::move(open);
  config.first_sequence = first_sequence;
  if (config_.on_substitution) {
    config.on_substitution = [this](const SubstitutionEvent& event) { OnSubstitution(event); };
  }
  if (config_.endpoint->embedded()) {
    // Weakly: a batch that is dropped may be a stream's last holder, and must not end a service.
    config.post_mortem = [weak = std::weak_ptr<Endpoint>(config_.endpoint)] {
      const auto endpoint = weak.lock();
      return endpoint == nullptr ? std::string() : endpoint->PostMortem();
    };
  }
  return config;
}

void HealingStream::OnSubstitution(const SubstitutionEvent& event) {
  const std::pair<uint64_t, uint64_t> place(event.epoch, event.position);
  {
    absl::MutexLock lock(&events_mutex_);
    if (std::find(told_.begin(), told_.end(), place) != told_.end()) return;
    told_.push_back(place);
    if (told_.size() > kMostTold) told_.pop_front();
  }
  config_.on_substitution(event);
}

absl::Status HealingStream::WaitOpened(
    absl::Duration silence, const std::function<void(const LoaderProgress&)>& on_progress) {
  std::shared_ptr<Stream> stream;
  {
    absl::MutexLock lock(&mutex_);
    stream = stream_;
  }
  absl::Status opened = stream->WaitOpened(silence, on_progress);
  if (!opened.ok()) return opened;
  info_ = stream->info();
  opened_ = stream->opened();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Batch>> HealingStream::Next(absl::Duration deadline) {
  const absl::Time until = absl::Now() + deadline;
  for (;;) {
    std::shared_ptr<Stream> stream;
    {
      absl::MutexLock lock(&mutex_);
      const auto settled = [this]()
                               ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return closed_ || !healing_; };
      const bool in_time = mutex_.AwaitWithDeadline(absl::Condition(&settled), until);
      if (closed_) return Closed();
      if (!in_time) {
        return MakeClientError(
            absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
            absl::StrCat(
                "no batch came within ", absl::FormatDuration(deadline), ": the service was lost ",
                absl::FormatDuration(absl::Trunc(absl::Now() - lost_since_, absl::Milliseconds(1))),
                " ago and is being reconnected"),
            {{"target", config_.endpoint->target()}});
      }
      if (!failure_.ok()) return failure_;
      stream = stream_;
    }
    auto batch = stream->Next(std::max(until - absl::Now(), absl::ZeroDuration()), deadline);
    if (batch.ok()) {
      NoteBatch(stream);
      return batch;
    }
    if (!IsLost(batch.status())) return batch.status();
    absl::Status healing = StartHealing(stream, batch.status());
    if (!healing.ok()) return healing;
  }
}

void HealingStream::NoteBatch(const std::shared_ptr<Stream>& stream) {
  absl::MutexLock lock(&mutex_);
  if (healing_ || stream_ != stream) return;  // an old stream's batch: it proves nothing
  lost_since_ = absl::InfiniteFuture();
  losses_ = 0;
  pause_ = kFirstPause;
}

absl::Status HealingStream::StartHealing(const std::shared_ptr<Stream>& stream,
                                         const absl::Status& cause) {
  if (config_.deadline <= absl::ZeroDuration()) return cause;
  absl::MutexLock join_lock(&join_mutex_);
  {
    absl::MutexLock lock(&mutex_);
    if (closed_ || healing_ || stream_ != stream || !failure_.ok()) return absl::OkStatus();
    lost_since_ = std::min(lost_since_, absl::Now());
    if (GiveUp(cause)) return failure_;
    healing_ = true;
  }
  if (healer_.joinable()) healer_.join();  // an earlier one, which is done
  v1::Open open = config_.open;
  *open.mutable_cursor() = stream->resume_cursor();
  // That the cursor may differ was for the first opening; from now on nothing may change.
  open.set_allow_changed_bytes(false);
  healer_ = std::thread([this, open = std::move(open), first = stream->next_sequence(), cause] {
    Heal(open, first, cause);
  });
  return absl::OkStatus();
}

void HealingStream::Heal(v1::Open open, uint64_t first_sequence, absl::Status cause) {
  for (;;) {
    absl::Duration patience;
    {
      absl::MutexLock lock(&mutex_);
      patience = lost_since_ + config_.deadline - absl::Now();
    }
    auto stream = Reconnect(open, first_sequence, patience);
    std::shared_ptr<Stream> old;  // destroyed after the lock is released
    absl::MutexLock lock(&mutex_);
    old = std::move(candidate_);
    if (closed_) {
      healing_ = false;
      return;
    }
    if (stream.ok()) {
      old = std::move(stream_);
      stream_ = *std::move(stream);
      ++reconnects_;
      healing_ = false;
      return;
    }
    const bool slow = ErrorReason(stream.status()) == client_reason::kDeadlineExceeded;
    if (!slow && !IsLost(stream.status())) {
      failure_ = stream.status();
    } else if (!slow) {
      cause = stream.status();
    }
    if (!failure_.ok() || GiveUp(cause)) {
      healing_ = false;
      return;
    }
    mutex_.AwaitWithTimeout(absl::Condition(&closed_), pause_);
    pause_ = std::min(2 * pause_, kLongestPause);
  }
}

absl::StatusOr<std::shared_ptr<Stream>> HealingStream::Reconnect(const v1::Open& open,
                                                                 uint64_t first_sequence,
                                                                 absl::Duration patience) {
  absl::Status alive = config_.endpoint->Revive(patience, [this] { return closed(); });
  if (!alive.ok()) return alive;
  std::shared_ptr<Stream> stream = Stream::Start(MakeConfig(open, first_sequence));
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return Closed();
    candidate_ = stream;
  }
  absl::Status opened = stream->WaitOpened(patience, nullptr);
  if (opened.ok()) opened = CheckSame(opened_, stream->opened());
  if (!opened.ok()) return opened;
  return stream;
}

bool HealingStream::GiveUp(const absl::Status& cause) {
  ++losses_;
  const absl::Duration tried = absl::Now() - lost_since_;
  std::string why;
  if (tried >= config_.deadline) {
    why = absl::StrCat("tried to reconnect for ",
                       absl::FormatDuration(absl::Trunc(tried, absl::Milliseconds(1))));
  } else if (config_.endpoint->embedded() && losses_ > kMostEmbeddedLosses) {
    why = absl::StrCat("the embedded service was lost ", losses_,
                       " times in a row without giving a batch");
  } else {
    return false;
  }
  failure_ = MakeClientError(absl::StatusCode::kUnavailable, client_reason::kServiceUnavailable,
                             absl::StrCat(cause.message(), "; ", why), ErrorMetadata(cause));
  return true;
}

void HealingStream::Close() {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Stream> candidate;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    stream = stream_;
    candidate = candidate_;
  }
  if (candidate != nullptr) candidate->Close();
  stream->Close();
  absl::MutexLock lock(&join_mutex_);
  if (healer_.joinable()) healer_.join();
}

bool HealingStream::closed() const {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

std::string HealingStream::boot_id() const {
  absl::MutexLock lock(&mutex_);
  return stream_->info().boot_id;
}

uint64_t HealingStream::reconnects() const {
  absl::MutexLock lock(&mutex_);
  return reconnects_;
}

}  // namespace bulkhead::client_internal
