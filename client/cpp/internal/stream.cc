#include "client/cpp/internal/stream.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/batch_data.h"
#include "client/cpp/internal/channel.h"
#include "client/cpp/internal/error.h"
#include "client/cpp/internal/thread.h"
#include "client/cpp/internal/wire.h"

namespace bulkhead::client_internal {
namespace {

// Tags of the operations on the completion queue.
enum Operation : intptr_t { kStart = 1, kRead, kWrite, kFinish };
void* TagOf(Operation operation) { return reinterpret_cast<void*>(operation); }

constexpr char kMethod[] = "/bulkhead.v1.Loader/Stream";
// How long a Next waits for a program that holds everything before it warns.
constexpr absl::Duration kWarnAfter = absl::Seconds(5);
// How often what the door's socket did not take is tried again.
constexpr absl::Duration kFlushPause = absl::Milliseconds(20);

// A thread has small memory of its own from malloc (an arena), which grows page by page for
// minutes, as messages happen to lie, until it never grows again: 16 to 32 KiB. A trainer's memory
// that creeps looks like a leak, so the thread takes all of that at its start and gives it back to
// malloc, which keeps it.
void TakeWorkingMemory() {
  constexpr size_t kBytes = 64 << 10;
  constexpr size_t kPageBytes = 4096;
  auto* volatile block = static_cast<volatile char*>(std::malloc(kBytes));
  if (block == nullptr) return;
  for (size_t i = 0; i < kBytes; i += kPageBytes) block[i] = 1;
  std::free(const_cast<char*>(block));
}

grpc::ByteBuffer Serialize(const v1::StreamRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

StreamMemory ToStreamMemory(const v1::MemoryPlan& plan) {
  StreamMemory memory;
  memory.slot_bytes = plan.slot_bytes();
  memory.slot_count = plan.slot_count();
  memory.arena_bytes = plan.arena_bytes();
  memory.sample_bytes = plan.sample_bytes();
  memory.workers = plan.workers();
  memory.threads_per_worker = plan.threads_per_worker();
  memory.worker_quota_bytes = plan.worker_quota_bytes();
  return memory;
}

LoaderProgress ToLoaderProgress(const v1::Progress& progress) {
  LoaderProgress result;
  result.files_done = progress.files_done();
  result.files_total = progress.files_total();
  result.records = progress.records();
  if (progress.has_eta()) {
    result.eta =
        absl::Seconds(progress.eta().seconds()) + absl::Nanoseconds(progress.eta().nanos());
  }
  result.activity = progress.activity();
  return result;
}

absl::StatusOr<std::shared_ptr<Stream>> Stream::Start(Config config) {
  std::shared_ptr<Stream> stream(new Stream(std::move(config)));
  absl::MutexLock lock(&stream->join_mutex_);
  absl::Status started = StartThread(
      "to read a stream", [raw = stream.get()] { raw->Run(); }, &stream->reader_);
  if (!started.ok()) return started;
  return stream;
}

Stream::Stream(Config config)
    : config_(std::move(config)),
      channel_(MakeChannel(config_.target)),
      stub_(channel_),
      silence_(config_.silence),
      next_sequence_(config_.first_sequence) {}

Stream::~Stream() { Close(); }

void Stream::Close() {
  std::deque<std::unique_ptr<BatchData>> unclaimed;
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_) {
      closed_ = true;
      changed_.Notify();
      context_.TryCancel();
    }
    unclaimed.swap(ready_);
  }
  unclaimed.clear();
  absl::MutexLock lock(&join_mutex_);
  if (reader_.joinable()) reader_.join();
}

void Stream::Run() {
  TakeWorkingMemory();
  call_ = stub_.PrepareCall(&context_, kMethod, &queue_);
  call_->StartCall(TagOf(kStart));
  Stopwatch lap;
  for (;;) {
    void* tag = nullptr;
    bool ok = false;
    const auto next = queue_.AsyncNext(&tag, &ok, GrpcDeadline(silence_.slice()));
    if (next == grpc::CompletionQueue::SHUTDOWN) return;
    silence_.Passed(lap.elapsed());
    lap = Stopwatch();
    if (next == grpc::CompletionQueue::GOT_EVENT) {
      OnEvent(tag, ok);
    } else {
      OnTick();
    }
  }
}

void Stream::OnTick() {
  if (silence_.too_long()) {
    silence_.Stop();
    Fail(MakeClientError(
        absl::StatusCode::kUnavailable, client_reason::kServiceSilent,
        absl::StrCat("the service at ", config_.target, " has said nothing for ",
                     absl::FormatDuration(config_.silence),
                     ", not even that it lives; it may be stopped, or the network is cut"),
        {{"target", config_.target}}));
  }
  if (arena_ == nullptr) return;
  config_.door->Flush();
  if (config_.door->alive()) return;
  // Our slots are not ours any more, so what lies in them must not be followed by more.
  Fail(WithPostMortem(
      MakeClientError(absl::StatusCode::kUnavailable, client_reason::kServiceUnavailable,
                      absl::StrCat("the service at ", config_.target, " hung up at the arena door"),
                      {{"target", config_.target}})));
}

void Stream::OnEvent(void* tag, bool ok) {
  switch (static_cast<Operation>(reinterpret_cast<intptr_t>(tag))) {
    case kStart:
      OnStarted(ok);
      break;
    case kRead:
      OnRead(ok);
      break;
    case kWrite: {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      if (!may_write_) {
        if (ended_) queue_.Shutdown();  // the finish waited for this write
      } else if (ok) {
        WriteIfIdle();
      }
      break;
    }
    case kFinish:
      OnFinished();
      break;
  }
}

void Stream::OnStarted(bool ok) {
  if (ok) {
    v1::StreamRequest request;
    *request.mutable_open() = config_.open;
    absl::MutexLock lock(&mutex_);
    may_write_ = true;
    writing_ = true;
    call_->Write(Serialize(request), TagOf(kWrite));
  } else {
    call_->Finish(&final_status_, TagOf(kFinish));
    return;
  }
  call_->Read(&incoming_, TagOf(kRead));
}

void Stream::OnRead(bool ok) {
  if (ok) {
    silence_.Heard();
    answered_ = true;
    absl::Status status = OnMessage(incoming_);
    incoming_.Clear();
    if (status.ok()) {
      call_->Read(&incoming_, TagOf(kRead));
      return;
    }
    Fail(std::move(status));
  }
  {
    absl::MutexLock lock(&mutex_);
    may_write_ = false;
  }
  call_->Finish(&final_status_, TagOf(kFinish));
}

void Stream::OnFinished() {
  absl::Status status;
  if (!final_status_.ok()) {
    status = Explain(final_status_);
  } else if (batch_context_ == nullptr) {
    status = ProtocolError("the stream ended before it was opened");
  } else if (assembler_->in_batch()) {
    status = ProtocolError("the stream ended in the middle of a batch");
  }
  silence_.Stop();
  if (config_.door != nullptr && opened_message_.arena_id() != 0)
    config_.door->Retire(opened_message_.arena_id());
  arena_ = nullptr;
  absl::MutexLock lock(&mutex_);
  may_write_ = false;
  ended_ = true;
  if (status_.ok()) status_ = std::move(status);
  changed_.Notify();
  if (!writing_) queue_.Shutdown();
}

absl::Status Stream::Explain(const grpc::Status& status) const {
  absl::Status error = FromRpcStatus(status, config_.target);
  if (ErrorReason(error) != client_reason::kServiceUnavailable) return error;
  return WithPostMortem(std::move(error));
}

absl::Status Stream::WithPostMortem(absl::Status error) const {
  if (!config_.post_mortem) return error;
  {
    absl::MutexLock lock(&mutex_);
    // It was we who ended the call.
    if (closed_ || !status_.ok()) return error;
  }
  const std::string died = config_.post_mortem();
  if (died.empty()) return error;
  return MakeClientError(error.code(), ErrorReason(error),
                         absl::StrCat(error.message(), "; ", died), ErrorMetadata(error));
}

void Stream::Fail(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok()) status_ = std::move(status);
  context_.TryCancel();
}

void Stream::Release(uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  changed_.Notify();
  if (opened_message_.transport() == v1::TRANSPORT_SHM) {
    held_.GoneAlone(sequence);
  } else if (const auto through = held_.Gone(sequence)) {
    release_ = through;
    WriteIfIdle();
  }
}

void Stream::WriteIfIdle() {
  if (!may_write_ || writing_ || !release_.has_value()) return;
  v1::StreamRequest request;
  request.mutable_release()->set_through_sequence(*release_);
  release_.reset();
  writing_ = true;
  call_->Write(Serialize(request), TagOf(kWrite));
}

v1::Cursor Stream::resume_cursor() const {
  absl::MutexLock lock(&mutex_);
  return resume_cursor_;
}

uint64_t Stream::next_sequence() const {
  absl::MutexLock lock(&mutex_);
  return next_sequence_;
}

void Stream::AddTo(LoaderStats* stats) const {
  absl::MutexLock lock(&mutex_);
  if (!opened_ || closed_) return;
  stats->ready_batches = ready_.size();
  if (info_.transport == Transport::kShm) {
    stats->held_slots = held_.count() - ready_.size() - (arriving_ ? 1 : 0);
  }
}

absl::Duration Stream::preparing_time() const {
  absl::MutexLock lock(&mutex_);
  return preparing_time_;
}

absl::Status Stream::WaitOpened(absl::Duration silence,
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
      if (closed_) {
        return MakeClientError(absl::StatusCode::kCancelled, client_reason::kLoaderClosed,
                               "the loader was closed");
      }
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

std::optional<absl::StatusOr<std::optional<Batch>>> Stream::Take() {
  using Result = absl::StatusOr<std::optional<Batch>>;
  if (closed_) {
    return Result(MakeClientError(absl::StatusCode::kCancelled, client_reason::kLoaderClosed,
                                  "the loader was closed"));
  }
  if (!ready_.empty()) {
    std::unique_ptr<BatchData> batch = std::move(ready_.front());
    ready_.pop_front();
    return Result(std::optional<Batch>(Batch(std::move(batch))));
  }
  if (!ended_) return std::nullopt;
  if (!status_.ok()) return Result(status_);
  return Result(std::optional<Batch>());
}

absl::StatusOr<std::optional<Batch>> Stream::Next(absl::Duration left, absl::Duration asked) {
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

absl::Status Stream::DeadlineExceeded(absl::Duration asked) const {
  return MakeClientError(absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
                         absl::StrCat("no batch came from the service at ", config_.target,
                                      " within ", absl::FormatDuration(asked),
                                      activity_.empty() ? "" : "; the workers are at: ", activity_),
                         {{"target", config_.target}});
}

bool Stream::Exhausted() const {
  if (!opened_ || arriving_ || !ready_.empty() || held_.count() == 0) return false;
  const v1::Credits& credits = config_.open.credits();
  if (opened_message_.transport() == v1::TRANSPORT_SHM) {
    const uint64_t slots = std::max<uint64_t>(opened_message_.memory().slot_count(), 2) - 1;
    return held_.count() >= std::min<uint64_t>(slots, credits.batches());
  }
  return held_.count() >= credits.batches() || held_.bytes() + info_.batch_bytes > credits.bytes();
}

std::string Stream::ExhaustedText() const {
  return absl::StrCat("all ", held_.count(),
                      " batches that this stream may have out at once are still held by this "
                      "program: destroy batches, the oldest (",
                      config_.first_sequence + held_.oldest(),
                      ") first, or copy what is to be kept; credit_batches and credit_bytes say ",
                      "how many may be out");
}

}  // namespace bulkhead::client_internal
