#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/doors/acceptor.h"
#include "server/doors/arena_door.h"
#include "server/os/event_loop.h"

namespace bulkhead {

// What a trainer's client calls in place of a service on another host: a Unix socket with an arena
// door beside it, at which each call is a StreamRelay.
//
// Life: Start → the loop's Run, on any one thread → Stop → destroyed by that thread.
class ReceiveServer {
 public:
  // Listens before it returns, and serves while `loop` runs. `path` is the socket's. Errors: those
  // of Acceptor::OpenUnix and ArenaDoor::Open.
  static absl::StatusOr<std::unique_ptr<ReceiveServer>> Start(std::shared_ptr<EventLoop> loop,
                                                              const std::string& path);
  // Cuts all calls. The loop no longer runs.
  ~ReceiveServer();

 private:
  class Service;

  explicit ReceiveServer(std::shared_ptr<EventLoop> loop);

  const std::shared_ptr<EventLoop> loop_;
  std::unique_ptr<ArenaDoor> door_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace bulkhead
