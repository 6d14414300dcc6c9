#include "server/receiver/receive_server.h"

#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/internal/rpc/channel.h"
#include "server/base/error.h"
#include "server/os/files/random_name.h"
#include "server/receiver/stream_relay.h"

namespace bulkhead {
namespace {

constexpr size_t kBootIdBytes = 16;
// Paths of TLS files in a call's metadata, and a service's errors in its trailers.
constexpr int kMaxMetadataBytes = 64 << 10;

}  // namespace

class ReceiveServer::Service : public grpc::CallbackGenericService {
 public:
  Service(std::shared_ptr<EventLoop> loop, ArenaDoor& door) : loop_(std::move(loop)), door_(door) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    return StreamRelay::Begin(loop_, door_, *call);
  }

 private:
  const std::shared_ptr<EventLoop> loop_;
  ArenaDoor& door_;
};

absl::StatusOr<std::unique_ptr<ReceiveServer>> ReceiveServer::Start(std::shared_ptr<EventLoop> loop,
                                                                    const std::string& path) {
  std::unique_ptr<ReceiveServer> server(new ReceiveServer(loop));
  const std::string door = absl::StrCat(path, std::string(kArenaDoorSuffix));
  BULKHEAD_ASSIGN_OR_RETURN(server->door_, ArenaDoor::Open(loop, door, RandomName(kBootIdBytes)));
  server->service_ = std::make_unique<Service>(loop, *server->door_);
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(server->service_.get());
  builder.SetMaxReceiveMessageSize(client_internal::kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("gRPC cannot start");
  BULKHEAD_ASSIGN_OR_RETURN(
      server->acceptor_,
      Acceptor::OpenUnix(loop, path, [raw = server->server_.get()](UniqueFd connection) {
        grpc::AddInsecureChannelFromFd(raw, connection.release());
      }));
  return server;
}

ReceiveServer::ReceiveServer(std::shared_ptr<EventLoop> loop) : loop_(std::move(loop)) {}

ReceiveServer::~ReceiveServer() {
  acceptor_.reset();
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace bulkhead
