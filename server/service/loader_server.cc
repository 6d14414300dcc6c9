#include "server/service/loader_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/os/unix_address.h"

namespace bulkhead {
namespace {

// A name for this run of the service. The one place where the system's randomness is used: it
// decides nothing but itself.
std::string MakeBootId() {
  std::random_device device;
  return absl::StrCat(absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoaderServer>> LoaderServer::Start(Config config) {
  std::unique_ptr<LoaderServer> server(new LoaderServer(std::move(config)));
  Supervisor::Config supervisor = server->config_.supervisor;
  supervisor.worker_program = server->config_.worker_program;
  supervisor.max_index_workers = server->config_.limits.workers;
  BULKHEAD_ASSIGN_OR_RETURN(server->supervisor_, Supervisor::Start(std::move(supervisor)));
  const ServiceLimits& limits = server->config_.limits;
  server->indexes_ =
      std::make_unique<IndexStore>(server->config_.cache_dir, limits.workers,
                                   limits.worker_quota_bytes, server->supervisor_.get());
  server->preparer_ =
      std::make_unique<Preparer>(limits, server->config_.roots, server->indexes_.get());
  SessionContext context;
  context.preparer = server->preparer_.get();
  context.supervisor = server->supervisor_.get();
  context.sessions = &server->sessions_;
  context.directory = &server->directory_;
  context.boot_id = MakeBootId();
  server->service_ = std::make_unique<LoaderService>(std::move(context));
  BULKHEAD_RETURN_IF_ERROR(server->Listen());
  return server;
}

LoaderServer::LoaderServer(Config config) : config_(std::move(config)) {}

LoaderServer::~LoaderServer() { Shutdown(absl::ZeroDuration()); }

absl::Status LoaderServer::Listen() {
  address_ = config_.address;
  if (absl::StartsWith(address_, "unix:")) {
    BULKHEAD_RETURN_IF_ERROR(PrepareUnixAddress(std::string(absl::StripPrefix(address_, "unix:"))));
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.RegisterService(service_.get());
  // Two services on one port would answer in turns.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(SessionRegistry::kMaxSessions));
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials(), &port_);
  server_ = builder.BuildAndStart();
  const bool is_unix = absl::StartsWith(address_, "unix:");
  if (server_ == nullptr || (port_ == 0 && !is_unix)) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen on ", config_.address,
                     ": it is taken, or not an address of this machine; choose another --listen"));
  }
  if (is_unix) {
    port_ = 0;
    return MakePrivate(std::string(absl::StripPrefix(address_, "unix:")));
  }
  address_ = absl::StrCat(address_.substr(0, address_.rfind(':')), ":", port_);
  return absl::OkStatus();
}

void LoaderServer::Shutdown(absl::Duration deadline) {
  if (shut_down_) return;
  shut_down_ = true;
  if (supervisor_ != nullptr) {
    supervisor_->FailStreams(MakeError(absl::StatusCode::kUnavailable, reason::kShuttingDown,
                                       "the service is shutting down"));
  }
  if (server_ != nullptr) {
    server_->Shutdown(absl::ToChronoTime(absl::Now() + deadline));
    sessions_.WaitUntilEmpty();
  }
  if (supervisor_ != nullptr) supervisor_->Shutdown();
}

}  // namespace bulkhead
