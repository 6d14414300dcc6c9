#include "client/cpp/internal/stream/stream.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/base/thread.h"
#include "client/cpp/internal/rpc/channel.h"

namespace bulkhead::client_internal {
namespace {

// malloc has a small arena for each thread, which grows page by page for some minutes, up to 16 to
// 32 KiB. Memory of a trainer that grows slowly looks like a leak. So the thread touches that much
// at its start and frees it, and malloc keeps it.
void TakeWorkingMemory() {
  constexpr size_t kBytes = 64 << 10;
  constexpr size_t kPageBytes = 4096;
  auto* volatile block = static_cast<volatile char*>(std::malloc(kBytes));
  if (block == nullptr) return;
  for (size_t i = 0; i < kBytes; i += kPageBytes) block[i] = 1;
  std::free(const_cast<char*>(block));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Stream>> Stream::Start(Config config) {
  BULKHEAD_ASSIGN_OR_RETURN(auto channel, MakeChannel(config.target, config.credentials,
                                                      Caller::kStream, config.authority));
  std::shared_ptr<Stream> stream(new Stream(std::move(config), std::move(channel)));
  const auto release = [weak = std::weak_ptr<Stream>(stream)](uint64_t sequence) {
    if (auto released = weak.lock()) released->inbox_.Release(sequence);
  };
  stream->receiver_ = std::make_unique<Receiver>(stream->config_, &stream->inbox_, release);
  absl::MutexLock lock(&stream->join_mutex_);
  const auto read = [raw = stream.get()] {
    TakeWorkingMemory();
    raw->call_.Run(raw->config_.open, raw);
  };
  BULKHEAD_RETURN_IF_ERROR(StartThread("to read a stream", read, &stream->reader_));
  return stream;
}

Stream::Stream(Config config, std::shared_ptr<grpc::Channel> channel)
    : config_(std::move(config)),
      call_(std::move(channel), config_.silence),
      inbox_(config_, [this](uint64_t through) { call_.Release(through); }) {}

Stream::~Stream() { Close(); }

void Stream::Close() {
  auto unclaimed = inbox_.Close();
  call_.Cancel();
  unclaimed.clear();
  absl::MutexLock lock(&join_mutex_);
  if (reader_.joinable()) reader_.join();
}

bool Stream::OnMessage(const grpc::ByteBuffer& message) {
  answered_ = true;
  absl::Status status = receiver_->OnMessage(message);
  if (status.ok()) return true;
  inbox_.Fail(std::move(status));
  return false;
}

void Stream::OnSilence() {
  Fail(MakeClientError(
      absl::StatusCode::kUnavailable, client_reason::kServiceSilent,
      absl::StrCat("the service at ", config_.target, " has said nothing for ",
                   absl::FormatDuration(config_.silence),
                   ", not even that it lives; it may be stopped, or the network is cut"),
      {{"target", config_.target}}));
}

void Stream::OnTick() {
  if (!receiver_->has_arena()) return;
  config_.door->Flush();
  if (config_.door->alive()) return;
  // The slots do not belong to this process any more, so the stream must not continue in them.
  Fail(WithPostMortem(
      MakeClientError(absl::StatusCode::kUnavailable, client_reason::kServiceUnavailable,
                      absl::StrCat("the service at ", config_.target, " hung up at the arena door"),
                      {{"target", config_.target}})));
}

void Stream::OnFinished(const grpc::Status& status) {
  absl::Status end = status.ok() ? receiver_->OnEnd() : Explain(status);
  // The service needs the memory: slots that nobody has read go back.
  if (receiver_->has_arena() && ErrorReason(end) == "STREAM_IDLE") inbox_.ForgetUnread();
  receiver_->RetireArena();
  inbox_.End(std::move(end));
  if (config_.on_end) config_.on_end(inbox_.status());
}

absl::Status Stream::Explain(const grpc::Status& status) const {
  const Caller caller = config_.post_mortem != nullptr ? Caller::kOwnStream : Caller::kStream;
  absl::Status error = answered_ || inbox_.given_up()
                           ? FromRpcStatus(status, config_.target, caller)
                           : FailureToConnect(status, config_.target, config_.credentials, caller);
  if (ErrorReason(error) != client_reason::kServiceUnavailable) return error;
  return WithPostMortem(std::move(error));
}

absl::Status Stream::WithPostMortem(absl::Status error) const {
  // What we ended ourselves needs no explanation.
  if (!config_.post_mortem || inbox_.given_up()) return error;
  const std::string died = config_.post_mortem();
  if (died.empty()) return error;
  return MakeClientError(error.code(), ErrorReason(error),
                         absl::StrCat(error.message(), "; ", died), ErrorMetadata(error));
}

void Stream::Fail(absl::Status status) {
  inbox_.Fail(std::move(status));
  call_.Cancel();
}

}  // namespace bulkhead::client_internal
