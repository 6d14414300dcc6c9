#include "client/cpp/internal/stream.h"

#include <algorithm>
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

absl::Status Stream::OnMessage(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return ProtocolError("a message cannot be read");
  auto view = ParseStreamResponse(slices);
  if (!view.ok()) return view.status();
  return view->is_part ? OnPart(view->part) : OnOther(view->other);
}

absl::Status Stream::OnPart(const PartView& part) {
  if (!assembler_.has_value()) return ProtocolError("a batch came before Opened");
  if (arena_ != nullptr) return ProtocolError("bytes came where slots were announced");
  if (part.has_header) {
    absl::MutexLock lock(&mutex_);
    absl::Status within = CheckCredits(held_.count() + 1, 0);
    if (!within.ok()) return within;
  }
  auto batch = assembler_->Add(part);
  if (!batch.ok()) return batch.status();
  if (part.has_header) {
    absl::MutexLock lock(&mutex_);
    arriving_ = true;
    held_.Arrived(assembler_->sequence(), assembler_->payload_bytes());
    absl::Status within = CheckCredits(held_.count(), held_.bytes());
    if (!within.ok()) return within;
  }
  if (*batch != nullptr) Deliver(*std::move(batch));
  return absl::OkStatus();
}

absl::Status Stream::OnSlot(const v1::SlotBatch& slot) {
  if (!assembler_.has_value()) return ProtocolError("a batch came before Opened");
  if (arena_ == nullptr || slot.arena_id() != arena_->id() || slot.slot() >= arena_->slot_count()) {
    return ProtocolError(absl::StrCat("slot ", slot.slot(), " of arena ", slot.arena_id(),
                                      " came, which is not this stream's"));
  }
  if (!config_.door->Hold(arena_->id(), slot.slot())) {
    return ProtocolError(absl::StrCat("slot ", slot.slot(), " came while it was held"));
  }
  auto batch = assembler_->Adopt(slot.header(),
                                 std::make_unique<HeldSlot>(arena_, config_.door, slot.slot()));
  if (!batch.ok()) return batch.status();
  {
    absl::MutexLock lock(&mutex_);
    held_.Arrived(slot.header().sequence(), slot.header().payload_bytes());
  }
  Deliver(*std::move(batch));
  return absl::OkStatus();
}

absl::Status Stream::CheckCredits(uint64_t batches, uint64_t bytes) const {
  const v1::Credits& credits = config_.open.credits();
  if (batches > credits.batches()) {
    return ProtocolError(
        absl::StrCat("more than the ", credits.batches(), " batches of credit came"));
  }
  if (batches > 1 && bytes > credits.bytes()) {
    return ProtocolError(absl::StrCat("more than the ", credits.bytes(), " bytes of credit came"));
  }
  return absl::OkStatus();
}

void Stream::Deliver(std::unique_ptr<BatchData> batch) {
  batch->on_release = [weak = weak_from_this(), sequence = batch->header.sequence()] {
    if (auto stream = weak.lock()) stream->Release(sequence);
  };
  batch->header.set_sequence(config_.first_sequence + batch->header.sequence());
  absl::MutexLock lock(&mutex_);
  resume_cursor_ = batch->cursor;
  next_sequence_ = config_.first_sequence + assembler_->window().mark();
  // A batch that comes while the loader closes is dropped with its stream, not released.
  arriving_ = false;
  if (closed_) batch->on_release = nullptr;
  if (!closed_) ready_.push_back(std::move(batch));
  changed_.Notify();
}

absl::Status Stream::OnOther(const std::string& serialized) {
  v1::StreamResponse response;
  if (!response.ParseFromString(serialized)) return ProtocolError("malformed StreamResponse");
  switch (response.response_case()) {
    case v1::StreamResponse::kProgress: {
      LoaderProgress progress = ToLoaderProgress(response.progress());
      response.mutable_progress()->clear_eta();
      absl::MutexLock lock(&mutex_);
      progress_ = std::move(progress);
      progress_seen_ = response.progress().SerializeAsString();
      changed_.Notify();
      return absl::OkStatus();
    }
    case v1::StreamResponse::kOpened:
      return OnOpened(response.opened());
    case v1::StreamResponse::kSlot:
      return OnSlot(response.slot());
    case v1::StreamResponse::kEvent:
      if (config_.on_substitution && response.event().kind() == v1::SampleEvent::KIND_SUBSTITUTED) {
        const v1::SampleEvent& event = response.event();
        config_.on_substitution(SubstitutionEvent{event.epoch(), event.position(),
                                                  event.substitute_position(), event.message()});
      }
      return absl::OkStatus();
    default:
      return absl::OkStatus();  // a heartbeat, or from a newer service, informational
  }
}

absl::Status Stream::OnOpened(const v1::Opened& opened) {
  if (batch_context_ != nullptr) return ProtocolError("the stream was opened twice");
  auto layout = MakeLayout(opened.schema());
  if (!layout.ok()) return layout.status();
  opened_message_ = opened;
  absl::Status mapped = TakeArena(opened, *layout);
  if (!mapped.ok()) return mapped;
  info_.tensors = layout->tensors;
  info_.batch_size = layout->batch_size;
  info_.batch_bytes = layout->batch_bytes;
  info_.samples_per_epoch = opened.samples_per_epoch();
  info_.batches_per_epoch = opened.batches_per_epoch();
  info_.batches_left_in_epoch = opened.batches_left_in_epoch();
  if (opened.has_epochs()) info_.epochs = opened.epochs();
  info_.memory = ToStreamMemory(opened.memory());
  info_.boot_id = opened.boot_id();
  info_.transport = opened.transport() == v1::TRANSPORT_SHM ? Transport::kShm : Transport::kGrpc;
  if (info_.transport != Transport::kShm) {
    info_.transport_reason =
        config_.no_door_reason.empty() ? opened.transport_reason() : config_.no_door_reason;
  }
  info_.cursor = CursorToJson(opened.cursor());
  batch_context_ = std::make_shared<BatchContext>(*std::move(layout), opened.cursor(),
                                                  config_.open.credits().batches());
  assembler_.emplace(batch_context_, opened.unordered(), config_.open.world_size());
  absl::MutexLock lock(&mutex_);
  resume_cursor_ = opened.cursor();
  opened_ = true;
  changed_.Notify();
  return absl::OkStatus();
}

absl::Status Stream::TakeArena(const v1::Opened& opened, const BatchLayout& layout) {
  if (opened.transport() != v1::TRANSPORT_SHM) {
    if (config_.open.transport() != v1::TRANSPORT_SHM) return absl::OkStatus();
    return MakeClientError(
        absl::StatusCode::kFailedPrecondition, client_reason::kTransportUnavailable,
        absl::StrCat("the service gives no shared memory: ", opened.transport_reason().empty()
                                                                 ? "it does not say why"
                                                                 : opened.transport_reason()));
  }
  if (config_.door == nullptr || opened.arena_id() == 0) {
    return ProtocolError("it chose shared memory without an arena");
  }
  auto arena = config_.door->TakeArena(opened.arena_id());
  if (!arena.ok()) return arena.status();
  if (layout.batch_bytes > (*arena)->slot_bytes()) {
    return ProtocolError(absl::StrCat("slots of ", (*arena)->slot_bytes(),
                                      " bytes do not hold batches of ", layout.batch_bytes));
  }
  arena_ = *std::move(arena);
  return absl::OkStatus();
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
      if (opened_) return absl::OkStatus();
      if (ended_) return status_;
      if (!progress_.has_value()) {
        return MakeClientError(
            absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
            absl::StrCat("the service at ", config_.target, " made no progress for ",
                         absl::FormatDuration(silence), " while opening the stream"),
            {{"target", config_.target}});
      }
      progress.swap(progress_);
      if (progress_seen_ != seen) {
        seen = progress_seen_;
        until = Deadline(silence);
      }
    }
    if (on_progress && progress.has_value()) on_progress(*progress);
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
    if (until.passed()) {
      return MakeClientError(absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
                             absl::StrCat("no batch came from the service at ", config_.target,
                                          " within ", absl::FormatDuration(asked)),
                             {{"target", config_.target}});
    }
    if (config_.door != nullptr && config_.door->pending()) {
      config_.door->Flush();
      wait = std::min(wait, kFlushPause);
    }
    changed_.Wait(&mutex_, wait);
  }
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
