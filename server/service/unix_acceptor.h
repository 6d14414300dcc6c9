#ifndef BULKHEAD_SERVER_SERVICE_UNIX_ACCEPTOR_H_
#define BULKHEAD_SERVER_SERVICE_UNIX_ACCEPTOR_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/rate_limit.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// The service's Unix socket. If gRPC listened itself, connections would have the kernel's default
// send buffer of 208 KiB, and a trainer that reads 1 MiB at a time would find it empty too often
// (docs/transports.md). So this class accepts connections, gives them a larger buffer, and hands
// them on. When three quarters of this process's descriptors are in use, it closes new connections
// at once: the service needs the others for its own files. Lives on `loop`, whose thread must run.
class UnixAcceptor {
 public:
  // Takes over a connection. Called on the loop's thread.
  using Handler = std::function<void(UniqueFd connection)>;

  // Requested send buffer of a connection. The kernel doubles it, within net.core.wmem_max.
  static constexpr int kSendBytes = 512 << 10;

  // Listens at `path` before it returns; only this user and root can connect. Errors: those of
  // ListenUnix.
  static absl::StatusOr<std::unique_ptr<UnixAcceptor>> Open(std::shared_ptr<EventLoop> loop,
                                                            const std::string& path,
                                                            Handler handler);
  // Closes. Call it on the loop's thread, or after that has ended.
  ~UnixAcceptor();

  // Takes no more connections and frees the path for a successor; keeps existing ones. On the
  // loop's thread. Idempotent.
  void Close();

 private:
  UnixAcceptor(std::shared_ptr<EventLoop> loop, UniqueFd listener, std::string path,
               Handler handler);

  void Listen();
  void Accept();

  const std::shared_ptr<EventLoop> loop_;
  UniqueFd listener_;
  const std::string path_;
  const Handler handler_;
  EventLoop::TimerId listen_timer_ = 0;
  RateLimit told_{0.1, 1};  // that connections were closed
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_UNIX_ACCEPTOR_H_
