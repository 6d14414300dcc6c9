#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/rate_limit.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"
#include "server/os/sockets/unix_address.h"

namespace bulkhead {

// A socket that the service listens at: gRPC is handed its connections. If gRPC listened itself,
// nobody would count strangers' connections over TCP; and connections over a Unix socket would have
// the kernel's default send buffer of 208 KiB, which a trainer that reads 1 MiB at a time would
// find empty too often (docs/transports.md): here they get a larger one. When three quarters of
// this process's descriptors are in use, new connections are closed at once: the service needs the
// others for its own files. Lives on `loop`, whose thread must run.
class Acceptor {
 public:
  // Takes over a connection, or closes it. Called on the loop's thread.
  using Handler = std::function<void(UniqueFd connection)>;

  // Requested send buffer of a connection over a Unix socket. The kernel doubles it, within
  // net.core.wmem_max.
  static constexpr int kSendBytes = 512 << 10;

  // Both listen before they return. At `path` only this user and root can connect. Errors: those of
  // ListenUnix.
  static absl::StatusOr<std::unique_ptr<Acceptor>> OpenUnix(std::shared_ptr<EventLoop> loop,
                                                            const std::string& path,
                                                            Handler handler);
  // On an IP address of this machine; `port` 0 becomes the one that was chosen. Errors: those of
  // ListenTcp.
  static absl::StatusOr<std::unique_ptr<Acceptor>> OpenTcp(std::shared_ptr<EventLoop> loop,
                                                           const std::string& address,
                                                           uint16_t& port, Handler handler);
  // Closes. Call it on the loop's thread, or after that has ended.
  ~Acceptor();

  // Takes no more connections and frees the address for a successor; keeps existing connections. On
  // the loop's thread. Idempotent.
  void Close();

 private:
  using AcceptOne = absl::StatusOr<UniqueFd> (*)(int listener);

  Acceptor(std::shared_ptr<EventLoop> loop, UniqueFd listener, AcceptOne accept_one,
           std::string path, Handler handler);

  // Has the loop watch the new listener.
  static std::unique_ptr<Acceptor> Begin(std::unique_ptr<Acceptor> acceptor);
  void Listen();
  void Accept();

  const std::shared_ptr<EventLoop> loop_;
  UniqueFd listener_;
  const AcceptOne accept_one_;
  const SocketFile file_;  // none over TCP
  const Handler handler_;
  EventLoop::TimerId listen_timer_ = 0;
  RateLimit told_{0.1, 1};  // that connections were closed
};

}  // namespace bulkhead
