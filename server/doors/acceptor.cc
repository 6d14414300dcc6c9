#include "server/doors/acceptor.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "server/base/error.h"
#include "server/os/files/fd_parcel.h"
#include "server/os/sockets/connection.h"
#include "server/os/sockets/tcp.h"

namespace bulkhead {
namespace {

// As long as the kernel allows: a connection that finds the queue full is refused at once.
constexpr int kBacklog = 4096;
constexpr absl::Duration kRetryPause = absl::Milliseconds(200);
// Connections accepted before the loop serves others.
constexpr int kConnectionsPerTurn = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::OpenUnix(std::shared_ptr<EventLoop> loop,
                                                             const std::string& path,
                                                             Handler handler) {
  BULKHEAD_ASSIGN_OR_RETURN(UniqueFd listener, ListenUnixStream(path, kBacklog));
  return Begin(std::unique_ptr<Acceptor>(new Acceptor(
      std::move(loop), std::move(listener), [](int fd) { return AcceptUnixStream(fd, kSendBytes); },
      path, std::move(handler))));
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::OpenTcp(std::shared_ptr<EventLoop> loop,
                                                            const std::string& address,
                                                            uint16_t& port, Handler handler) {
  BULKHEAD_ASSIGN_OR_RETURN(TcpListener listener, ListenTcp(address, port, kBacklog));
  port = listener.port;
  return Begin(std::unique_ptr<Acceptor>(new Acceptor(std::move(loop), std::move(listener.fd),
                                                      AcceptConnection, "", std::move(handler))));
}

Acceptor::Acceptor(std::shared_ptr<EventLoop> loop, UniqueFd listener, AcceptOne accept_one,
                   std::string path, Handler handler)
    : loop_(std::move(loop)),
      listener_(std::move(listener)),
      accept_one_(accept_one),
      file_(std::move(path)),
      handler_(std::move(handler)) {}

std::unique_ptr<Acceptor> Acceptor::Begin(std::unique_ptr<Acceptor> acceptor) {
  acceptor->loop_->Post([raw = acceptor.get()] { raw->Listen(); });
  return acceptor;
}

Acceptor::~Acceptor() { Close(); }

void Acceptor::Close() {
  if (!listener_) return;
  loop_->Cancel(listen_timer_);
  loop_->Unwatch(listener_.get());
  file_.Remove();
  listener_.reset();
}

void Acceptor::Listen() {
  if (!listener_) return;
  const absl::Status watched = loop_->Watch(listener_.get(), [this] { Accept(); });
  if (watched.ok()) return;
  spdlog::error("cannot accept connections yet: {}", std::string(watched.message()));
  listen_timer_ = loop_->After(kRetryPause, [this] { Listen(); });
}

void Acceptor::Accept() {
  for (int taken = 0; taken < kConnectionsPerTurn; ++taken) {
    absl::StatusOr<UniqueFd> connection = accept_one_(listener_.get());
    if (connection.ok()) {
      // The kernel gives the lowest number that is free.
      if (static_cast<uint64_t>(connection->get()) < FdLimit() / 4 * 3) {
        handler_(*std::move(connection));
      } else if (told_.Take(MonotonicNanos())) {
        spdlog::error(
            "connections are closed as soon as they are made: {} files and connections are open, "
            "of {} that this process may have; raise its limit (ulimit -n), or end the clients "
            "that hold so many",
            connection->get(), FdLimit());
      }
      continue;
    }
    if (connection.status().code() == absl::StatusCode::kUnavailable) return;
    // Mostly a lack of descriptors. The connection stays queued; retrying at once would spin.
    spdlog::warn("cannot accept a connection yet: {}", std::string(connection.status().message()));
    loop_->Unwatch(listener_.get());
    listen_timer_ = loop_->After(kRetryPause, [this] { Listen(); });
    return;
  }
}

}  // namespace bulkhead
