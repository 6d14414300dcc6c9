#include "server/service/loader_service.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "server/base/version.h"
#include "server/service/describe_session.h"
#include "server/service/rpc_error.h"
#include "server/service/stream_session.h"

namespace bulkhead {
namespace {

// A connection that gRPC was handed is "fd:12" to it, which tells nobody anything.
std::string PeerName(const grpc::CallbackServerContext& rpc) {
  std::string peer = rpc.peer();
  return absl::StartsWith(peer, "fd:") ? "unix:" : peer;
}

// Refuses a call at once.
template <typename Reactor>
class Refusal final : public Reactor {
 public:
  explicit Refusal(const absl::Status& status) { this->Finish(ToRpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerWriteReactor<v1::DescribeResponse>* LoaderService::Describe(
    grpc::CallbackServerContext* rpc, const v1::DescribeRequest* request) {
  if (const absl::Status added = context_.sessions->TryAdd(); !added.ok()) {
    return new Refusal<grpc::ServerWriteReactor<v1::DescribeResponse>>(added);
  }
  return DescribeSession::Start(context_, *request);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* LoaderService::Stream(
    grpc::CallbackServerContext* rpc) {
  if (const absl::Status added = context_.sessions->TryAdd(); !added.ok()) {
    return new Refusal<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>(added);
  }
  return StreamSession::Start(context_, PeerName(*rpc));
}

grpc::ServerUnaryReactor* LoaderService::GetStatus(grpc::CallbackServerContext* rpc,
                                                   const v1::GetStatusRequest* request,
                                                   v1::GetStatusResponse* response) {
  *response = context_.supervisor->GetStatus();
  response->set_version(kVersion);
  response->set_boot_id(context_.boot_id);
  response->set_pid(getpid());
  response->mutable_start_time()->set_seconds(absl::ToUnixSeconds(started_));
  grpc::ServerUnaryReactor* reactor = rpc->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace bulkhead
