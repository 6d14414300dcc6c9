#include "client/cpp/internal/stream.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/batch_data.h"
#include "client/cpp/internal/error.h"
#include "client/cpp/internal/wire.h"

namespace bulkhead::client_internal {
namespace {

// Tags of the operations on the completion queue.
enum Operation : intptr_t { kStart = 1, kRead, kWrite, kFinish };
void* TagOf(Operation operation) { return reinterpret_cast<void*>(operation); }

constexpr char kMethod[] = "/bulkhead.v1.Loader/Stream";
// Parts are at most 1 MiB; an answer that repeats a spec may be longer.
constexpr int kMaxMessageBytes = 16 << 20;

grpc::ByteBuffer Serialize(const v1::StreamRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  // Another channel's back-off must not delay this one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Batches do not go through a proxy that was meant for web pages.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

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

std::shared_ptr<Stream> Stream::Start(Config config) {
  std::shared_ptr<Stream> stream(new Stream(std::move(config)));
  stream->reader_ = std::thread([raw = stream.get()] { raw->Run(); });
  return stream;
}

Stream::Stream(Config config)
    : config_(std::move(config)),
      channel_(MakeChannel(config_.target)),
      stub_(channel_),
      next_sequence_(config_.first_sequence) {
  call_ = stub_.PrepareCall(&context_, kMethod, &queue_);
  call_->StartCall(TagOf(kStart));
}

Stream::~Stream() { Close(); }

void Stream::Close() {
  std::deque<std::unique_ptr<BatchData>> unclaimed;
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_) {
      closed_ = true;
      context_.TryCancel();
    }
    unclaimed.swap(ready_);
  }
  unclaimed.clear();
  absl::MutexLock lock(&join_mutex_);
  if (reader_.joinable()) reader_.join();
}

void Stream::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
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
  absl::MutexLock lock(&mutex_);
  may_write_ = false;
  ended_ = true;
  if (status_.ok()) status_ = std::move(status);
  if (!writing_) queue_.Shutdown();
}

absl::Status Stream::Explain(const grpc::Status& status) const {
  absl::Status error = FromRpcStatus(status, config_.target);
  if (ErrorReason(error) != client_reason::kServiceUnavailable || !config_.post_mortem) {
    return error;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return error;  // it was we who ended the call
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
  if (part.has_header) {
    absl::Status within = CheckCredits();
    if (!within.ok()) return within;
  }
  auto batch = assembler_->Add(part);
  if (!batch.ok()) return batch.status();
  if (part.has_header) {
    absl::MutexLock lock(&mutex_);
    held_payloads_.push_back(assembler_->payload_bytes());
    held_bytes_ += assembler_->payload_bytes();
    ++held_batches_;
    if (held_batches_ > 1 && held_bytes_ > config_.open.credits().bytes()) {
      return ProtocolError(
          absl::StrCat("more than the ", config_.open.credits().bytes(), " bytes of credit came"));
    }
  }
  if (*batch != nullptr) Deliver(*std::move(batch));
  return absl::OkStatus();
}

absl::Status Stream::CheckCredits() {
  absl::MutexLock lock(&mutex_);
  if (held_batches_ < config_.open.credits().batches()) return absl::OkStatus();
  return ProtocolError(
      absl::StrCat("more than the ", config_.open.credits().batches(), " batches of credit came"));
}

void Stream::Deliver(std::unique_ptr<BatchData> batch) {
  batch->on_release = [weak = weak_from_this(), sequence = batch->header.sequence()] {
    if (auto stream = weak.lock()) stream->Release(sequence);
  };
  v1::BatchHeader& header = batch->header;
  header.set_sequence(config_.first_sequence + header.sequence());
  absl::MutexLock lock(&mutex_);
  resume_cursor_.set_epoch(header.next_epoch());
  resume_cursor_.set_consumed(header.next_consumed());
  resume_cursor_.set_substitutions(header.substitutions());
  next_sequence_ = header.sequence() + 1;
  // A batch that comes while the loader closes is dropped with its stream, not released.
  if (closed_) batch->on_release = nullptr;
  if (!closed_) ready_.push_back(std::move(batch));
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
      return absl::OkStatus();
    }
    case v1::StreamResponse::kOpened:
      return OnOpened(response.opened());
    case v1::StreamResponse::kEvent:
      if (config_.on_substitution && response.event().kind() == v1::SampleEvent::KIND_SUBSTITUTED) {
        const v1::SampleEvent& event = response.event();
        config_.on_substitution(SubstitutionEvent{event.epoch(), event.position(),
                                                  event.substitute_position(), event.message()});
      }
      return absl::OkStatus();
    default:
      return absl::OkStatus();  // from a newer service, informational
  }
}

absl::Status Stream::OnOpened(const v1::Opened& opened) {
  if (batch_context_ != nullptr) return ProtocolError("the stream was opened twice");
  auto layout = MakeLayout(opened.schema());
  if (!layout.ok()) return layout.status();
  info_.tensors = layout->tensors;
  info_.batch_size = layout->batch_size;
  info_.batch_bytes = layout->batch_bytes;
  info_.samples_per_epoch = opened.samples_per_epoch();
  info_.batches_per_epoch = opened.batches_per_epoch();
  info_.batches_left_in_epoch = opened.batches_left_in_epoch();
  if (opened.has_epochs()) info_.epochs = opened.epochs();
  info_.memory = ToStreamMemory(opened.memory());
  info_.boot_id = opened.boot_id();
  info_.cursor = CursorToJson(opened.cursor());
  batch_context_ = std::make_shared<BatchContext>(*std::move(layout), opened.cursor(),
                                                  config_.open.credits().batches());
  assembler_.emplace(batch_context_);
  opened_message_ = opened;
  absl::MutexLock lock(&mutex_);
  resume_cursor_ = opened.cursor();
  opened_ = true;
  return absl::OkStatus();
}

void Stream::Fail(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  if (status_.ok()) status_ = std::move(status);
  context_.TryCancel();
}

void Stream::Release(uint64_t sequence) {
  absl::MutexLock lock(&mutex_);
  gone_.insert(sequence);
  bool any = false;
  while (!gone_.empty() && *gone_.begin() == first_held_) {
    gone_.erase(gone_.begin());
    held_bytes_ -= held_payloads_.front();
    held_payloads_.pop_front();
    --held_batches_;
    release_ = first_held_++;
    any = true;
  }
  if (any) WriteIfIdle();
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

bool Stream::SomethingToTake() const { return !ready_.empty() || ended_ || closed_; }

std::string Stream::Awaited() const {
  if (held_batches_ >= config_.open.credits().batches() && ready_.empty()) {
    return absl::StrCat("; ", held_batches_,
                        " batches are handed out and not destroyed, which is all the credit that "
                        "the loader has (credit_batches)");
  }
  return "";
}

absl::Status Stream::WaitOpened(absl::Duration silence,
                                const std::function<void(const LoaderProgress&)>& on_progress) {
  std::string seen;
  absl::Time until = absl::Now() + silence;
  for (;;) {
    std::optional<LoaderProgress> progress;
    {
      absl::MutexLock lock(&mutex_);
      const auto news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return opened_ || ended_ || closed_ || progress_.has_value();
      };
      const bool in_time = mutex_.AwaitWithDeadline(absl::Condition(&news), until);
      if (closed_) {
        return MakeClientError(absl::StatusCode::kCancelled, client_reason::kLoaderClosed,
                               "the loader was closed");
      }
      if (opened_) return absl::OkStatus();
      if (ended_) return status_;
      if (!in_time) {
        return MakeClientError(
            absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
            absl::StrCat("the service at ", config_.target, " made no progress for ",
                         absl::FormatDuration(silence), " while opening the stream"),
            {{"target", config_.target}});
      }
      progress.swap(progress_);
      if (progress_seen_ != seen) {
        seen = progress_seen_;
        until = absl::Now() + silence;
      }
    }
    if (on_progress && progress.has_value()) on_progress(*progress);
  }
}

absl::StatusOr<std::optional<Batch>> Stream::Next(absl::Duration left, absl::Duration asked) {
  std::unique_ptr<BatchData> batch;
  absl::MutexLock lock(&mutex_);
  const bool in_time =
      mutex_.AwaitWithTimeout(absl::Condition(this, &Stream::SomethingToTake), left);
  if (closed_) {
    return MakeClientError(absl::StatusCode::kCancelled, client_reason::kLoaderClosed,
                           "the loader was closed");
  }
  if (!ready_.empty()) {
    batch = std::move(ready_.front());
    ready_.pop_front();
    return std::optional<Batch>(Batch(std::move(batch)));
  }
  if (!in_time) {
    return MakeClientError(absl::StatusCode::kDeadlineExceeded, client_reason::kDeadlineExceeded,
                           absl::StrCat("no batch came from the service at ", config_.target,
                                        " within ", absl::FormatDuration(asked), Awaited()),
                           {{"target", config_.target}});
  }
  if (!status_.ok()) return status_;
  return std::optional<Batch>();
}

}  // namespace bulkhead::client_internal
