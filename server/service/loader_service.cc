#include "server/service/loader_service.h"

#include <unistd.h>

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
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

// What the cache folder's disk may take for a change of the quarantine.
constexpr absl::Duration kQuarantinePatience = absl::Seconds(10);

absl::Status QuarantineStalled(const QuarantineStore& store) {
  return MakeError(
      absl::StatusCode::kUnavailable, reason::kStorageStalled,
      absl::StrCat(store.path(), ": the storage has not answered for ",
                   absl::ToInt64Seconds(kQuarantinePatience),
                   " s. Repair the mount and try again; what was asked for may still be done"),
      {{"file", store.path()}});
}

// Carries out what the request asks for, durably.
absl::Status ChangeQuarantine(const v1::QuarantineRequest& request, QuarantineStore& store) {
  store.Refresh();
  switch (request.action()) {
    case v1::QuarantineRequest::ACTION_LIST:
      return absl::OkStatus();
    case v1::QuarantineRequest::ACTION_ADD:
      if (request.records().empty()) {
        return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                         "no record to add was named");
      }
      for (const std::string& name : request.records()) {
        v1::QuarantinedRecord record;
        record.set_record(name);
        record.mutable_time()->set_seconds(absl::ToUnixSeconds(absl::Now()));
        record.set_reason("by hand");
        BULKHEAD_RETURN_IF_ERROR(store.Add(record, ""));
      }
      return store.Save();
    case v1::QuarantineRequest::ACTION_CLEAR:
      store.Clear({request.records().begin(), request.records().end()});
      return store.Save();
    default:
      return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                       "the request says neither list nor add nor clear");
  }
}

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
  return StreamSession::Start(context_, rpc, PeerName(*rpc));
}

grpc::ServerUnaryReactor* LoaderService::FinishAside(grpc::CallbackServerContext* rpc,
                                                     std::function<absl::Status()> answer) const {
  grpc::ServerUnaryReactor* const reactor = rpc->DefaultReactor();
  const absl::Status started = context_.sessions->StartThread(
      [reactor, answer = std::move(answer)] { reactor->Finish(ToRpcStatus(answer())); });
  if (!started.ok()) reactor->Finish(ToRpcStatus(started));
  return reactor;
}

grpc::ServerUnaryReactor* LoaderService::GetStatus(grpc::CallbackServerContext* rpc,
                                                   const v1::GetStatusRequest* request,
                                                   v1::GetStatusResponse* response) {
  return FinishAside(rpc, [this, response] {
    *response = Status();
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* LoaderService::Quarantine(grpc::CallbackServerContext* rpc,
                                                    const v1::QuarantineRequest* request,
                                                    v1::QuarantineResponse* response) {
  return FinishAside(rpc, [this, request, response] {
    const auto done = std::make_shared<absl::Status>();
    const bool answered = context_.io->Run([store = context_.quarantine, request = *request,
                                            done] { *done = ChangeQuarantine(request, *store); },
                                           kQuarantinePatience);
    for (v1::QuarantinedRecord& record : context_.quarantine->List()) {
      *response->add_records() = std::move(record);
    }
    return answered ? *done : QuarantineStalled(*context_.quarantine);
  });
}

v1::GetStatusResponse LoaderService::Status() const {
  v1::GetStatusResponse status = context_.supervisor->GetStatus();
  status.set_version(kVersion);
  status.set_boot_id(context_.boot_id);
  status.set_pid(getpid());
  status.mutable_start_time()->set_seconds(absl::ToUnixSeconds(started_));
  status.set_samples_quarantined(context_.quarantine->List().size());
  if (log_lines_dropped_ != nullptr) status.set_log_lines_dropped(log_lines_dropped_());
  return status;
}

grpc::ServerUnaryReactor* LoaderService::Recycle(grpc::CallbackServerContext* rpc,
                                                 const v1::RecycleRequest* request,
                                                 v1::RecycleResponse* response) {
  const std::optional<uint32_t> slot =
      request->has_slot() ? std::make_optional(request->slot()) : std::nullopt;
  return FinishAside(rpc, [this, request, response, slot] {
    response->set_workers(context_.supervisor->Recycle(request->pipeline(), slot));
    return absl::OkStatus();
  });
}

}  // namespace bulkhead
