#include "server/doors/arena_door.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "server/os/files/random_name.h"
#include "server/os/sockets/seqpacket.h"

namespace bulkhead {
namespace {

// Far above a release of every slot of the largest arena.
constexpr size_t kMaxPacketBytes = 4096;
// Packets read from one client before others get their turn.
constexpr int kPacketsPerTurn = 64;
constexpr size_t kTokenBytes = 16;
constexpr absl::Duration kAcceptPause = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<std::unique_ptr<ArenaDoor>> ArenaDoor::Open(std::shared_ptr<EventLoop> loop,
                                                           const std::string& path,
                                                           std::string boot_id) {
  absl::StatusOr<UniqueFd> listener = ListenSeqPacket(path);
  if (!listener.ok()) return listener.status();
  std::unique_ptr<ArenaDoor> door(
      new ArenaDoor(std::move(loop), *std::move(listener), path, std::move(boot_id)));
  door->loop_->Post([door = door.get()] { door->Listen(); });
  return door;
}

ArenaDoor::ArenaDoor(std::shared_ptr<EventLoop> loop, UniqueFd listener, std::string path,
                     std::string boot_id)
    : loop_(std::move(loop)),
      listener_(std::move(listener)),
      file_(std::move(path)),
      boot_id_(std::move(boot_id)) {}

void ArenaDoor::Close() {
  if (!listener_) return;
  loop_->Cancel(listen_timer_);
  loop_->Unwatch(listener_.get());
  file_.Remove();
  listener_.reset();
}

ArenaDoor::~ArenaDoor() {
  Close();
  std::vector<std::shared_ptr<ArenaClient>> clients;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [token, client] : clients_) clients.push_back(client);
  }
  for (const auto& client : clients) HangUp(client);
}

std::shared_ptr<ArenaClient> ArenaDoor::FindClient(const std::string& token) {
  absl::MutexLock lock(&mutex_);
  const auto found = clients_.find(token);
  return found == clients_.end() ? nullptr : found->second;
}

void ArenaDoor::Listen() {
  const absl::Status watched = loop_->Watch(listener_.get(), [this] { Accept(); });
  if (!watched.ok())
    spdlog::error("the arena door takes no connections: {}", std::string(watched.message()));
}

void ArenaDoor::Accept() {
  for (;;) {
    absl::StatusOr<SeqPacketPeer> peer = AcceptSeqPacket(listener_.get());
    if (!peer.ok()) {
      if (peer.status().code() != absl::StatusCode::kUnavailable) {
        // Mostly a lack of descriptors. The connection stays queued; retrying at once would spin.
        spdlog::warn("arena door: {}", std::string(peer.status().message()));
        loop_->Unwatch(listener_.get());
        listen_timer_ = loop_->After(kAcceptPause, [this] { Listen(); });
      }
      return;
    }
    if (peer->uid != geteuid() && peer->uid != 0) {
      spdlog::warn("arena door: refused a connection of uid {} (pid {})", peer->uid, peer->pid);
      continue;
    }
    Welcome(std::move(peer->fd));
  }
}

void ArenaDoor::Welcome(UniqueFd fd) {
  auto client = std::make_shared<ArenaClient>(std::move(fd), RandomName(kTokenBytes));
  v1::ArenaServerMessage message;
  message.mutable_welcome()->set_token(client->token());
  message.mutable_welcome()->set_boot_id(boot_id_);
  {
    absl::MutexLock lock(&mutex_);
    if (clients_.size() >= kMaxClients) {
      spdlog::warn("arena door: more than {} connections; another one was closed", kMaxClients);
      return;
    }
    clients_[client->token()] = client;
  }
  const bool served = SendSeqPacket(client->fd(), message.SerializeAsString()).ok() &&
                      loop_
                          ->Watch(client->fd(),
                                  [this, weak = std::weak_ptr<ArenaClient>(client)] {
                                    if (const auto client = weak.lock()) Read(client);
                                  })
                          .ok();
  if (!served) HangUp(client);
}

void ArenaDoor::Read(const std::shared_ptr<ArenaClient>& client) {
  for (int packets = 0; packets < kPacketsPerTurn; ++packets) {
    const absl::StatusOr<std::string> bytes = ReceiveSeqPacket(client->fd(), kMaxPacketBytes);
    // No packet yet, or the kernel is short of memory: no fault of the client.
    const absl::StatusCode code = bytes.status().code();
    if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kResourceExhausted) {
      return;
    }
    v1::ArenaClientMessage message;
    if (!bytes.ok() || !message.ParseFromString(*bytes)) {
      HangUp(client);
      return;
    }
    client->OnMessage(message);
  }
}

void ArenaDoor::HangUp(const std::shared_ptr<ArenaClient>& client) {
  loop_->Unwatch(client->fd());
  {
    absl::MutexLock lock(&mutex_);
    clients_.erase(client->token());
  }
  client->OnHangUp();
}

}  // namespace bulkhead
