#ifndef BULKHEAD_SERVER_SERVICE_UNIX_ACCEPTOR_H_
#define BULKHEAD_SERVER_SERVICE_UNIX_ACCEPTOR_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/os/event_loop.h"
#include "server/os/files/fd.h"

namespace bulkhead {

// The service's Unix socket. gRPC could listen there itself, but then a connection has the
// kernel's default send buffer of 208 KiB, and a trainer that reads 1 MiB at a time finds it empty
// too often (docs/transports.md). So connections are accepted here, given a larger one, and handed
// on. Lives on `loop`, whose thread must run.
class UnixAcceptor {
 public:
  // Takes over a connection; called on the loop's thread.
  using Handler = std::function<void(UniqueFd connection)>;

  // Asked for as a connection's send buffer, of which the kernel grants twice as much, within
  // net.core.wmem_max.
  static constexpr int kSendBytes = 512 << 10;

  // Listens at `path` before it returns; only this user and root can connect. Errors as
  // ListenUnix'.
  static absl::StatusOr<std::unique_ptr<UnixAcceptor>> Open(std::shared_ptr<EventLoop> loop,
                                                            const std::string& path,
                                                            Handler handler);
  // On the loop's thread, or when it has ended. Closes.
  ~UnixAcceptor();

  // On the loop's thread: nobody else comes in, and the path is free for a successor. Who is in
  // stays. Idempotent.
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
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_UNIX_ACCEPTOR_H_
