#include "server/service/loader_service.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/base/version.h"
#include "server/service/calls/describe_session.h"
#include "server/service/raw_messages.h"
#include "server/service/stream_session.h"
#include "server/service/trace/trace_session.h"

namespace bulkhead {
namespace {

// With the peer's name, if it has one. gRPC names a connection that was passed to it "fd:12", which
// means nothing to a reader.
std::string PeerName(const grpc::CallbackServerContext& rpc, const std::string& name = "") {
  std::string peer = rpc.peer();
  if (absl::StartsWith(peer, "fd:")) peer = "unix:";
  return name.empty() ? peer : absl::StrCat(name, " at ", peer);
}

// For the cache folder's disk to save a change of the quarantine.
constexpr absl::Duration kQuarantinePatience = absl::Seconds(10);

absl::Status QuarantineStalled(const QuarantineStore& store) {
  return MakeError(
      absl::StatusCode::kUnavailable, reason::kStorageStalled,
      absl::StrCat(store.path(), ": the storage has not answered for ",
                   absl::ToInt64Seconds(kQuarantinePatience),
                   " s. Repair the mount and try again; the request may still be carried out"),
      {{"file", store.path()}});
}

// Applies the request and saves the result.
absl::Status ChangeQuarantine(const v1::QuarantineRequest& request, QuarantineStore& store) {
  store.Refresh();
  switch (request.action()) {
    case v1::QuarantineRequest::ACTION_LIST:
      return absl::OkStatus();
    case v1::QuarantineRequest::ACTION_ADD:
      if (request.records().empty()) {
        return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                         "the request names no record to add");
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
                       "the request has no action: list, add or clear");
  }
}

// The count of these records, and the newest of them.
void AddQuarantine(std::vector<v1::QuarantinedRecord> records, v1::GetStatusResponse& status) {
  constexpr size_t kShown = 32;
  status.set_samples_quarantined(records.size());
  std::ranges::stable_sort(records, {}, [](const auto& one) { return one.time().seconds(); });
  const size_t first = records.size() > kShown ? records.size() - kShown : 0;
  for (size_t i = first; i < records.size(); ++i) {
    *status.add_quarantined() = std::move(records[i]);
  }
}

}  // namespace

LoaderService::LoaderService(SessionContext context, std::function<uint64_t()> log_lines_dropped,
                             double openings_per_second)
    : context_(std::move(context)),
      log_lines_dropped_(std::move(log_lines_dropped)),
      open_rate_(openings_per_second) {
  using Rpc = grpc::CallbackServerContext*;
  using Bytes = const grpc::ByteBuffer&;
  Handle("/bulkhead.v1.Loader/Describe", [this](Rpc rpc) { return Describe(rpc); });
  Handle("/bulkhead.v1.Loader/Stream", [this](Rpc rpc) { return Stream(rpc); });
  Handle("/bulkhead.v1.Loader/Trace", [this](Rpc rpc) { return Trace(rpc); });
  Handle("/bulkhead.v1.Loader/PutDataset", [this](Rpc rpc) { return PutDataset(rpc); });
  Handle("/bulkhead.v1.Loader/GetStatus", [this](Rpc rpc) {
    return Ask(rpc, Right::kStatus, [this](Bytes bytes) { return AnswerStatus(bytes); });
  });
  Handle("/bulkhead.v1.Loader/Recycle", [this](Rpc rpc) {
    return Ask(rpc, Right::kOperate, [this](Bytes bytes) { return AnswerRecycle(bytes); });
  });
  Handle("/bulkhead.v1.Loader/Quarantine", [this](Rpc rpc) {
    return Ask(rpc, Right::kOperate, [this](Bytes bytes) { return AnswerQuarantine(bytes); });
  });
}

absl::StatusOr<Caller> LoaderService::CallerOf(const grpc::CallbackServerContext& rpc,
                                               Right right) const {
  absl::StatusOr<std::string> checked = context_.access.Check(rpc, right);
  if (!checked.ok()) {
    if (const auto untold = context_.refusal_lines->Take(MonotonicNanos())) {
      spdlog::warn("a call is refused to {}: {}; boot {}{}", PeerName(rpc),
                   std::string(checked.status().message()), context_.boot_id,
                   UntoldText(*untold, "refusals"));
    }
    return checked.status();
  }
  context_.peers->Allow(rpc.peer());
  std::string name = *std::move(checked);
  std::string client = name.empty() ? context_.peers->ClientOf(rpc.peer()) : name;
  std::string peer = PeerName(rpc, name);
  return Caller{std::move(name), std::move(client), std::move(peer),
                context_.peers->ProcessOf(rpc.peer())};
}

absl::StatusOr<Caller> LoaderService::AdmitCaller(const grpc::CallbackServerContext& rpc,
                                                  Right right) {
  BULKHEAD_ASSIGN_OR_RETURN(Caller caller, CallerOf(rpc, right));
  BULKHEAD_RETURN_IF_ERROR(
      open_rate_.Take(context_.peers->ConnectionOf(rpc.peer()), caller.client, MonotonicNanos()));
  BULKHEAD_ASSIGN_OR_RETURN(caller.session, context_.sessions->TryAdd(caller.client));
  return caller;
}

RawCall* LoaderService::Refuse(const absl::Status& status) {
  return LateRefusal::Start(status, context_.loop, &late_refusals_);
}

RawCall* LoaderService::Begin(const std::shared_ptr<RequestCall>& call, uint64_t session) {
  return RequestCall::Start(call, context_.loop,
                            [sessions = context_.sessions, session] { sessions->Remove(session); });
}

RawCall* LoaderService::Describe(grpc::CallbackServerContext* rpc) {
  const auto caller = AdmitCaller(*rpc, Right::kStream);
  if (!caller.ok()) return Refuse(caller.status());
  return Begin(std::make_shared<DescribeSession>(context_, caller->client), caller->session);
}

RawCall* LoaderService::Stream(grpc::CallbackServerContext* rpc) {
  auto caller = AdmitCaller(*rpc, Right::kStream);
  if (!caller.ok()) {
    context_.stream_counts->Refused(caller.status());
    return Refuse(caller.status());
  }
  caller->code = context_.access.Check(*rpc, Right::kCode).status();
  return StreamSession::Start(context_, rpc, *std::move(caller));
}

RawCall* LoaderService::Trace(grpc::CallbackServerContext* rpc) {
  const auto caller = AdmitCaller(*rpc, Right::kStatus);
  if (!caller.ok()) return Refuse(caller.status());
  return Begin(std::make_shared<TraceSession>(context_), caller->session);
}

RawCall* LoaderService::PutDataset(grpc::CallbackServerContext* rpc) {
  using Answer = absl::StatusOr<grpc::ByteBuffer>;
  // Clients without names are all of one user (access_config.cc).
  const std::string name = context_.access.Check(*rpc, Right::kCode).value_or("");
  return Ask(rpc, Right::kCode,
             [this, name, peer = rpc->peer()](const grpc::ByteBuffer& bytes) -> Answer {
               v1::PutDatasetRequest request;
               BULKHEAD_RETURN_IF_ERROR(ParseRequest(bytes, request));
               BULKHEAD_ASSIGN_OR_RETURN(const uint64_t have,
                                         context_.datasets->Put(request, name, MonotonicNanos()));
               context_.peers->Forgive(peer, request.data().size());
               v1::PutDatasetResponse response;
               response.set_have(have);
               response.set_boot_id(context_.boot_id);
               return Serialize(response);
             });
}

RawCall* LoaderService::Ask(grpc::CallbackServerContext* rpc, Right right,
                            Question::Answer answer) {
  const auto caller = CallerOf(*rpc, right);
  const absl::Status added =
      caller.ok() ? context_.sessions->TryAddQuestion(caller->client) : caller.status();
  if (!added.ok()) return Refuse(added);
  return RequestCall::Start(
      std::make_shared<Question>(context_.loop, context_.sessions, caller->client,
                                 Question::Pace{&question_pace_, kQuestionInterval},
                                 std::move(answer)),
      context_.loop);
}

absl::StatusOr<grpc::ByteBuffer> LoaderService::AnswerStatus(const grpc::ByteBuffer& bytes) {
  v1::GetStatusRequest request;
  BULKHEAD_RETURN_IF_ERROR(ParseRequest(bytes, request));
  return Serialize(Status(request.fresh_memory()));
}

absl::StatusOr<grpc::ByteBuffer> LoaderService::AnswerRecycle(const grpc::ByteBuffer& bytes) {
  v1::RecycleRequest request;
  BULKHEAD_RETURN_IF_ERROR(ParseRequest(bytes, request));
  const std::optional<uint32_t> slot =
      request.has_slot() ? std::make_optional(request.slot()) : std::nullopt;
  v1::RecycleResponse recycled;
  recycled.set_workers(context_.supervisor->Recycle(request.pipeline(), slot));
  return Serialize(recycled);
}

absl::StatusOr<grpc::ByteBuffer> LoaderService::AnswerQuarantine(const grpc::ByteBuffer& bytes) {
  const auto request = std::make_shared<v1::QuarantineRequest>();
  BULKHEAD_RETURN_IF_ERROR(ParseRequest(bytes, *request));
  const auto done = std::make_shared<absl::Status>();
  const bool answered = context_.io->Run(
      [store = context_.quarantine, request, done] { *done = ChangeQuarantine(*request, *store); },
      kQuarantinePatience);
  if (!answered) return QuarantineStalled(*context_.quarantine);
  BULKHEAD_RETURN_IF_ERROR(*done);
  v1::QuarantineResponse listed;
  for (v1::QuarantinedRecord& record : context_.quarantine->List()) {
    *listed.add_records() = std::move(record);
  }
  return Serialize(listed);
}

v1::GetStatusResponse LoaderService::Status(bool fresh_memory) {
  v1::GetStatusResponse status = context_.supervisor->GetStatus(fresh_memory);
  status.set_version(kVersion);
  status.set_boot_id(context_.boot_id);
  status.set_pid(getpid());
  status.mutable_start_time()->set_seconds(absl::ToUnixSeconds(started_));
  AddQuarantine(context_.quarantine->List(), status);
  if (v1::ObjectReads reads; context_.preparer->Describe(reads)) {
    *status.mutable_object_reads() = std::move(reads);
  }
  context_.stream_counts->Append(status);
  if (log_lines_dropped_ != nullptr) status.set_log_lines_dropped(log_lines_dropped_());
  recent_looks_.Explain(MonotonicNanos(), status);
  return status;
}

}  // namespace bulkhead
