#include "server/receiver/stream_relay.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/rpc/channel.h"
#include "client/cpp/internal/rpc/wire.h"
#include "server/base/error.h"
#include "server/service/rpc_error.h"

namespace bulkhead {
namespace {

using client_internal::ResponseView;

constexpr char kMethod[] = "/bulkhead.v1.Loader/Stream";
// What a service takes for credits that a client leaves open (Open.credits).
constexpr uint32_t kDefaultBatches = 4;
constexpr uint64_t kDefaultBytes = uint64_t{256} << 20;
// The batch that a training step works on keeps its slot while the next one comes.
constexpr uint64_t kFewestSlots = 2;
// Messages that a client has yet to read; with more, nothing more is read from the service.
constexpr size_t kMostUnread = 256;
// A client takes a service for lost that is silent for ten times as long. A batch that is slow to
// arrive is no silence.
constexpr int64_t kHeartbeatNs = 1'000'000'000;

template <typename Message>
grpc::ByteBuffer BytesOf(const Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

template <typename Message>
bool Parse(const grpc::ByteBuffer& bytes, Message& message) {
  grpc::Slice slice;
  return bytes.DumpToSingleSlice(&slice).ok() &&
         message.ParseFromArray(slice.begin(), static_cast<int>(slice.size()));
}

grpc::Status Malformed(const char* who) {
  return ToRpcStatus(MakeError(
      absl::StatusCode::kInternal, reason::kProtocolViolation,
      absl::StrCat(who,
                   " sent a malformed message; client and service may be of different versions")));
}

std::string ValueOf(const grpc::GenericCallbackServerContext& call, const char* key) {
  const auto found = call.client_metadata().find(key);
  return found == call.client_metadata().end()
             ? ""
             : std::string(found->second.data(), found->second.size());
}

}  // namespace

class StreamRelay::Local : public grpc::ServerGenericBidiReactor {
 public:
  explicit Local(std::shared_ptr<StreamRelay> relay) : relay_(std::move(relay)) {}
  void Begin() { StartRead(&incoming_); }

  void OnReadDone(bool ok) override {
    if (!ok) return;  // it says no more, or is gone
    relay_->FromClient(std::exchange(incoming_, grpc::ByteBuffer()));
    StartRead(&incoming_);
  }
  void OnWriteDone(bool) override { relay_->WrittenToClient(); }
  void OnCancel() override { relay_->ClientGone(); }
  void OnDone() override {
    relay_->ClientDone();
    delete this;
  }

 private:
  const std::shared_ptr<StreamRelay> relay_;
  grpc::ByteBuffer incoming_;
};

class StreamRelay::Remote : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Remote(std::shared_ptr<StreamRelay> relay, const std::shared_ptr<grpc::Channel>& channel)
      : relay_(std::move(relay)), stub_(channel) {}
  void Begin() {
    stub_.PrepareBidiStreamingCall(&context_, kMethod, {}, this);
    AddHold();  // until nothing more is read: till then others may begin to write
    Read();
    StartCall();
  }
  void Read() { StartRead(&incoming_); }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (ok) {
      relay_->FromService(std::exchange(incoming_, grpc::ByteBuffer()));
    } else {
      relay_->ServiceReadsEnded();
      RemoveHold();
    }
  }
  void OnWriteDone(bool ok) override { relay_->WrittenToService(ok); }
  void OnDone(const grpc::Status& status) override {
    relay_->ServiceDone(status);
    delete this;
  }

 private:
  const std::shared_ptr<StreamRelay> relay_;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
};

grpc::ServerGenericBidiReactor* StreamRelay::Begin(std::shared_ptr<EventLoop> loop, ArenaDoor& door,
                                                   const grpc::GenericCallbackServerContext& call) {
  const std::shared_ptr<StreamRelay> relay(new StreamRelay(std::move(loop), door, call));
  auto* const local = new Local(relay);
  {
    absl::MutexLock lock(&relay->mutex_);
    relay->local_ = local;
    if (call.method() != kMethod) {
      relay->End({grpc::StatusCode::UNIMPLEMENTED, "bulkhead-receive passes on streams only"});
    }
  }
  local->Begin();
  return local;
}

StreamRelay::StreamRelay(std::shared_ptr<EventLoop> loop, ArenaDoor& door,
                         const grpc::GenericCallbackServerContext& call)
    : loop_(std::move(loop)),
      door_(door),
      target_(ValueOf(call, relay_key::kTarget)),
      authority_(ValueOf(call, relay_key::kAuthority)),
      credentials_{.ca = ValueOf(call, relay_key::kCa),
                   .cert = ValueOf(call, relay_key::kCert),
                   .key = ValueOf(call, relay_key::kKey),
                   .token_file = ValueOf(call, relay_key::kTokenFile),
                   .socket_user = ValueOf(call, relay_key::kSocketUser)} {}

// The client's call.

void StreamRelay::FromClient(grpc::ByteBuffer message) {
  v1::StreamRequest request;
  const bool parsed = Parse(message, request);
  absl::MutexLock lock(&mutex_);
  if (end_.has_value()) return;
  if (!parsed || request.has_open() == called_) {
    End(Malformed("the client"));
  } else if (request.has_open()) {
    Call(std::move(request));
  } else {
    ToService(request);
  }
}

void StreamRelay::Call(v1::StreamRequest request) {
  called_ = true;
  auto channel = client_internal::MakeChannel(target_, credentials_,
                                              client_internal::Caller::kOneCall, authority_);
  if (!channel.ok()) {  // as the client has looked at them, they are just being replaced
    End({grpc::StatusCode::UNAVAILABLE, std::string(channel.status().message())});
    return;
  }
  open_ = request.open();
  v1::Open& open = *request.mutable_open();
  open.set_transport(v1::TRANSPORT_GRPC);
  open.clear_arena_token();
  open.clear_announce_at_door();
  remote_ = new Remote(shared_from_this(), *channel);
  remote_->Begin();
  ToService(request);
}

void StreamRelay::WrittenToClient() {
  absl::MutexLock lock(&mutex_);
  writing_to_client_ = false;
  to_client_.pop_front();
  WriteToClient();
  if (reading_paused_ && to_client_.size() < kMostUnread / 2) ReadFromService();
}

void StreamRelay::ClientGone() {
  absl::MutexLock lock(&mutex_);
  to_client_.resize(writing_to_client_ ? 1 : 0);
  End({grpc::StatusCode::CANCELLED, "the client is gone"});
}

void StreamRelay::ClientDone() {
  std::shared_ptr<ArenaClient> client;
  uint64_t arena_id = 0;
  {
    absl::MutexLock lock(&mutex_);
    local_ = nullptr;
    if (slots_.has_value()) client = client_;
    arena_id = arena_id_;
    waiting_.clear();
  }
  if (client != nullptr) client->Retire(arena_id);
}

// The call to the service.

void StreamRelay::FromService(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  const bool dumped = message.Dump(&slices).ok();
  absl::MutexLock lock(&mutex_);
  if (!end_.has_value()) {
    const auto view = client_internal::ParseStreamResponse(slices);
    v1::StreamResponse response;
    if (!dumped || !view.ok() || (!view->is_part && !response.ParseFromString(view->other))) {
      End(Malformed("the service"));
    } else if (view->is_part && slots_.has_value()) {
      waiting_.emplace_back(std::move(slices));
      Advance();
    } else if (response.has_event() && slots_.has_value()) {
      waiting_.emplace_back(std::move(*response.mutable_event()));
      Advance();
    } else if (response.has_opened()) {
      OnOpened(*response.mutable_opened());
      ToClient(BytesOf(response));
    } else {
      ToClient(message);
    }
    if (MonotonicNanos() - told_ns_ > kHeartbeatNs) {
      v1::StreamResponse alive;
      alive.mutable_heartbeat();
      ToClient(BytesOf(alive));
    }
  }
  if (to_client_.size() < kMostUnread || end_.has_value()) {
    ReadFromService();
  } else {
    reading_paused_ = true;
  }
}

void StreamRelay::ReadFromService() {
  reading_paused_ = false;
  if (remote_ != nullptr) remote_->Read();
}

void StreamRelay::WrittenToService(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_to_service_ = false;
  to_service_.pop_front();
  if (ok) WriteToService();
}

void StreamRelay::ServiceReadsEnded() {
  absl::MutexLock lock(&mutex_);
  remote_ = nullptr;
}

void StreamRelay::ServiceDone(const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  service_ended_ = status;
  if (!end_.has_value()) Advance();
}

// Batches.

void StreamRelay::OnOpened(v1::Opened& opened) {
  if (open_.arena_token().empty()) return;
  const absl::Status made = MakeArena(opened);
  if (!made.ok()) {
    slots_.reset();
    opened.set_transport_reason(std::string(made.message()));
    return;
  }
  at_door_ = open_.announce_at_door();
  opened.set_transport(v1::TRANSPORT_SHM);
  opened.set_arena_id(arena_id_);
  opened.set_announced_at_door(at_door_);
  opened.clear_transport_reason();
}

absl::Status StreamRelay::MakeArena(const v1::Opened& opened) {
  client_ = door_.FindClient(open_.arena_token());
  if (client_ == nullptr) return absl::UnavailableError("the client hung up at the arena door");
  const v1::Credits& credits = open_.credits();
  const uint64_t batches = credits.batches() > 0 ? credits.batches() : kDefaultBatches;
  const uint64_t bytes = credits.bytes() > 0 ? credits.bytes() : kDefaultBytes;
  const uint64_t within = bytes / std::max<uint64_t>(opened.schema().batch_bytes(), 1);
  // What the service may send without a release, and what the client may hold.
  const uint64_t sent = std::clamp<uint64_t>(within, 1, batches);
  const uint64_t held = std::clamp<uint64_t>(within, std::min(batches, kFewestSlots), batches);
  auto slots = BatchSlots::Create(opened.schema(), static_cast<uint32_t>(held));
  if (!slots.ok()) return slots.status();
  const auto granted = client_->Grant(*slots->arena(), nullptr);
  if (!granted.ok()) return granted.status();
  slots_ = *std::move(slots);
  arena_id_ = *granted;
  releasable_ = held - sent;
  return absl::OkStatus();
}

void StreamRelay::Advance() {
  while (!waiting_.empty() && !end_.has_value() && Pass(waiting_.front())) waiting_.pop_front();
  ReleaseCredits();
  if (waiting_.empty() && service_ended_.has_value()) End(*service_ended_);
}

bool StreamRelay::Pass(const Waiting& waiting) {
  if (const auto* event = std::get_if<v1::SampleEvent>(&waiting)) {
    v1::ArenaServerMessage packet;
    packet.mutable_event()->set_arena_id(arena_id_);
    *packet.mutable_event()->mutable_event() = *event;
    v1::StreamResponse response;
    *response.mutable_event() = *event;
    Announce(packet, response);
    return true;
  }
  auto view = client_internal::ParseStreamResponse(std::get<std::vector<grpc::Slice>>(waiting));
  const auto added = slots_->Add(std::move(view->part));
  if (!added.ok()) {
    End(ToRpcStatus(added.status()));
    return true;
  }
  if (*added == BatchSlots::Added::kBatch) HandOutBatch();
  return *added != BatchSlots::Added::kNothing;
}

void StreamRelay::HandOutBatch() {
  const uint32_t slot = slots_->slot();
  v1::ArenaServerMessage packet;
  v1::SlotBatch& told = *packet.mutable_slot();
  *told.mutable_header() = slots_->header();
  told.set_arena_id(arena_id_);
  told.set_slot(slot);
  v1::StreamResponse response;
  *response.mutable_slot() = told;
  unreleased_.push_back(told.header().sequence());
  auto hold = std::make_shared<const SlotHold>(
      slots_->arena(), slot, [loop = loop_, weak = weak_from_this(), slot](bool left) {
        loop->Post([weak, slot, left] {
          if (const auto relay = weak.lock()) relay->SlotReturned(slot, left);
        });
      });
  if (client_->HandOut(arena_id_, slot, std::move(hold))) {
    Announce(packet, response);
  } else {
    End({grpc::StatusCode::UNAVAILABLE, "the client hung up at the arena door"});
  }
}

void StreamRelay::Announce(const v1::ArenaServerMessage& packet,
                           const v1::StreamResponse& response) {
  const bool fits = packet.ByteSizeLong() <= ArenaClient::kLargestPacket;
  if (at_door_ && fits && client_->Announce(packet)) {
    told_ns_ = MonotonicNanos();
    return;
  }
  at_door_ = false;  // the text is long, the door's buffer is full, or the client is gone
  ToClient(BytesOf(response));
}

void StreamRelay::SlotReturned(uint32_t slot, bool left) {
  absl::MutexLock lock(&mutex_);
  if (!left) slots_->Free(slot);
  ++releasable_;
  Advance();
}

void StreamRelay::ReleaseCredits() {
  std::optional<uint64_t> through;
  for (; releasable_ > 0 && !unreleased_.empty(); --releasable_) {
    through = unreleased_.front();
    unreleased_.pop_front();
  }
  if (!through.has_value()) return;
  v1::StreamRequest request;
  request.mutable_release()->set_through_sequence(*through);
  ToService(request);
}

// Writing.

void StreamRelay::End(const grpc::Status& status) {
  if (end_.has_value()) return;
  end_ = status;
  if (remote_ != nullptr) remote_->Cancel();
  if (reading_paused_) ReadFromService();  // to see its end
  WriteToClient();
}

void StreamRelay::ToClient(grpc::ByteBuffer message) {
  told_ns_ = MonotonicNanos();
  to_client_.push_back(std::move(message));
  WriteToClient();
}

void StreamRelay::WriteToClient() {
  if (local_ == nullptr || writing_to_client_ || finished_) return;
  if (!to_client_.empty()) {
    writing_to_client_ = true;
    local_->StartWrite(&to_client_.front());
  } else if (end_.has_value()) {
    finished_ = true;
    local_->Finish(*end_);
  }
}

void StreamRelay::ToService(const v1::StreamRequest& request) {
  to_service_.push_back(BytesOf(request));
  WriteToService();
}

void StreamRelay::WriteToService() {
  if (remote_ == nullptr || writing_to_service_ || to_service_.empty()) return;
  writing_to_service_ = true;
  remote_->StartWrite(&to_service_.front());
}

}  // namespace bulkhead
