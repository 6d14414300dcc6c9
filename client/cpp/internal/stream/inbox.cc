#include "client/cpp/internal/stream/inbox.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {
namespace {

// How long a Next waits for a program that holds everything before it warns.
constexpr absl::Duration kWarnAfter = absl::Seconds(5);
// How often what the door's socket did not take is tried again.
constexpr absl::Duration kFlushPause = absl::Milliseconds(20);

absl::Status CheckWithin(const Inbox::Limits& limits, uint64_t batches, uint64_t bytes) {
  if (batches > limits.batches) {
    return ProtocolError(absl::StrCat("more than the ", limits.batches, " batches of credit came"));
  }
  if (batches > 1 && bytes > limits.bytes) {
    return ProtocolError(absl::StrCat("more than the ", limits.bytes, " bytes of credit came"));
  }
  return absl::OkStatus();
}

}  // namespace

Inbox::Inbox(const StreamConfig& config, std::function<void(uint64_t)> give_back)
    : config_(config), give_back_(std::move(give_back)), next_sequence_(config.first_sequence) {}

void Inbox::Tell(LoaderProgress progress, std::string seen) {
  absl::MutexLock lock(&mutex_);
  progress_ = std::move(progress);
  if (seen != progress_seen_) preparing_time_ = age();
  progress_seen_ = std::move(seen);
  changed_.Notify();
}

void Inbox::Open(const Limits& limits, const v1::Cursor& cursor) {
  absl::MutexLock lock(&mutex_);
  limits_ = limits;
  resume_cursor_ = cursor;
  opened_ = true;
  preparing_time_ = age();
  changed_.Notify();
}

absl::Status Inbox::MayBegin() const {
  absl::MutexLock lock(&mutex_);
  return CheckWithin(limits_, held_.count() + 1, 0);
}

void Inbox::Begin(uint64_t sequence, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  arriving_ = true;
  held_.Arrived(sequence, bytes);
}

absl::Status Inbox::CheckCredits() const {
  absl::MutexLock lock(&mutex_);
  return CheckWithin(limits_, held_.count(), held_.bytes());
}

void Inbox::Put(std::unique_ptr<BatchData> batch, uint64_t mark) {
  absl::MutexLock lock(&mutex_);
  v1::Cursor before = std::exchange(resume_cursor_, batch->cursor);
  const uint64_t first = std::exchange(next_sequence_, config_.first_sequence + mark);
  // A batch that comes while the loader closes is dropped with its stream, not released.
  arriving_ = false;
  activity_.clear();
  if (closed_) batch->on_release = nullptr;
  if (!closed_) {
    ready_.push_back(std::move(batch));
    before_.emplace_back(std::move(before), first);
  }
  changed_.Notify();
}

void Inbox::SetActivity(const std::string& activity) {
  absl::MutexLock lock(&mutex_);
  activity_ = activity;
}

void Inbox::SetQuarantined(const v1::Cursor& cursor) {
  absl::MutexLock lock(&mutex_);
  *resume_cursor_.mutable_quarantined() = cursor.quarantined();
}

void Inbox::Fail(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok()) status_ = std::move(status);
}

void Inbox::End(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  ended_ = true;
  if (status_.ok()) status_ = std::move(status);
  changed_.Notify();
}

std::deque<std::unique_ptr<BatchData>> Inbox::ForgetUnread() {
  absl::MutexLock lock(&mutex_);
  if (!before_.empty()) {
    const auto quarantined = resume_cursor_.quarantined();
    std::tie(resume_cursor_, next_sequence_) = std::move(before_.front());
    // Whatever comes next comes without these.
    *resume_cursor_.mutable_quarantined() = quarantined;
    before_.clear();
  }
  return std::exchange(ready_, {});
}

std::deque<std::unique_ptr<BatchData>> Inbox::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  before_.clear();
  changed_.Notify();
  return std::exchange(ready_, {});
}

void Inbox::Release(uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  changed_.Notify();
  if (limits_.slots) {
    held_.GoneAlone(sequence);
  } else if (const auto through = held_.Gone(sequence)) {
    give_back_(*through);
  }
}

bool Inbox::given_up() const {
  absl::MutexLock lock(&mutex_);
  return closed_ || !status_.ok();
}

absl::Status Inbox::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

std::string Inbox::activity() const {
  absl::MutexLock lock(&mutex_);
  return activity_;
}

v1::Cursor Inbox::resume_cursor() const {
  absl::MutexLock lock(&mutex_);
  return resume_cursor_;
}

uint64_t Inbox::next_sequence() const {
  absl::MutexLock lock(&mutex_);
  return next_sequence_;
}

void Inbox::AddTo(LoaderStats* stats) const {
  absl::MutexLock lock(&mutex_);
  if (!opened_ || closed_) return;
  stats->ready_batches = ready_.size();
  if (limits_.slots) {
    stats->held_slots = held_.count() - ready_.size() - (arriving_ ? 1 : 0);
  }
}

absl::Duration Inbox::preparing_time() const {
  absl::MutexLock lock(&mutex_);
  return preparing_time_;
}

absl::Status Inbox::WaitOpened(absl::Duration silence,
                               const std::function<void(const LoaderProgress&)>& on_progress) {
  std::string seen;
  Deadline until(silence);
  for (;;) {
    std::optional<LoaderProgress> progress;
    {
      absl::MutexLock lock(&mutex_);
      while (!opened_ && !ended_ && !closed_ && !progress_.has_value() && !until.passed()) {
        changed_.Wait(&mutex_, until.left());
      }
      if (closed_) return ClosedError();
      // What came last is told first, even when the stream has opened since.
      progress.swap(progress_);
      if (!progress.has_value()) {
        if (opened_) return absl::OkStatus();
        if (ended_) return status_;
        return MakeClientError(
            absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
            absl::StrCat("the service at ", config_.target, " made no progress for ",
                         absl::FormatDuration(silence), " while opening the stream"),
            {{"target", config_.target}});
      }
      if (progress_seen_ != seen) {
        seen = progress_seen_;
        until = Deadline(silence);
      }
    }
    if (on_progress) on_progress(*progress);
  }
}

std::optional<absl::StatusOr<std::optional<Batch>>> Inbox::Take() {
  using Result = absl::StatusOr<std::optional<Batch>>;
  if (closed_) return Result(ClosedError());
  if (!ready_.empty()) {
    std::unique_ptr<BatchData> batch = std::move(ready_.front());
    ready_.pop_front();
    before_.pop_front();
    return Result(std::optional<Batch>(Batch(std::move(batch))));
  }
  if (!ended_) return std::nullopt;
  if (!status_.ok()) return Result(status_);
  return Result(std::optional<Batch>());
}

absl::StatusOr<std::optional<Batch>> Inbox::Next(absl::Duration left, absl::Duration asked) {
  const Deadline until(left);
  bool exhausted = false;
  Stopwatch since;  // exhausted
  bool warned = false;
  absl::MutexLock lock(&mutex_);
  for (;;) {
    if (auto taken = Take()) return *std::move(taken);
    absl::Duration wait = until.left();
    if (!Exhausted()) {
      exhausted = false;
    } else {
      if (!exhausted) since = Stopwatch();
      exhausted = true;
      const absl::Duration held_for = since.elapsed();
      const absl::Duration warn_after = std::min(kWarnAfter, config_.held_deadline / 2);
      if (until.passed() || held_for >= config_.held_deadline) {
        return MakeClientError(absl::StatusCode::kResourceExhausted, client_reason::kSlotsExhausted,
                               ExhaustedText());
      }
      if (!warned && config_.on_warning && held_for >= warn_after) {
        warned = true;
        const std::string text = ExhaustedText();
        mutex_.Unlock();
        config_.on_warning(text);
        mutex_.Lock();
        continue;
      }
      wait = std::min(wait, config_.held_deadline - held_for);
      if (!warned) wait = std::min(wait, std::max(warn_after - held_for, absl::Milliseconds(1)));
    }
    if (until.passed()) return DeadlineExceeded(asked);
    if (config_.door != nullptr && config_.door->pending()) {
      config_.door->Flush();
      wait = std::min(wait, kFlushPause);
    }
    changed_.Wait(&mutex_, wait);
  }
}

absl::Status Inbox::DeadlineExceeded(absl::Duration asked) const {
  return MakeClientError(
      absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
      absl::StrCat("no batch came from the service at ", config_.target, " within ",
                   absl::FormatDuration(asked),
                   activity_.empty() ? "" : "; activity of the workers: ", activity_),
      {{"target", config_.target}});
}

bool Inbox::Exhausted() const {
  if (!opened_ || arriving_ || !ready_.empty() || held_.count() == 0) return false;
  if (held_.count() >= limits_.batches) return true;
  return !limits_.slots && held_.bytes() + limits_.batch_bytes > limits_.bytes;
}

std::string Inbox::ExhaustedText() const {
  return absl::StrCat("all ", held_.count(),
                      " batches that this stream may have out at once are still held by this "
                      "program: destroy batches, the oldest (",
                      config_.first_sequence + held_.oldest(),
                      ") first, or copy what is to be kept; credit_batches and credit_bytes say ",
                      "how many may be out");
}

}  // namespace bulkhead::client_internal
