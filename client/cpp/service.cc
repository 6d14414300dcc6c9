#include "bulkhead/service.h"

#include <google/protobuf/util/json_util.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "bulkhead/v1/loader.grpc.pb.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/base/steady.h"
#include "client/cpp/internal/batch/layout.h"
#include "client/cpp/internal/rpc/channel.h"
#include "client/cpp/internal/rpc/public_types.h"
#include "client/cpp/internal/service/embedded.h"
#include "client/cpp/internal/service/service_log.h"
#include "client/cpp/internal/service/target_file.h"
#include "client/cpp/internal/spec/spec.h"

namespace bulkhead {
namespace {

// Where the one service is that a call asks.
absl::StatusOr<client_internal::Target> OneService(const std::string& target,
                                                   const Credentials& asked) {
  BULKHEAD_ASSIGN_OR_RETURN(client_internal::Target service,
                            client_internal::ResolveTarget(target, asked));
  const std::vector<std::string> services = client_internal::ServicesIn(service.address);
  if (services.size() > 1) {
    // Of a file, the credentials come from there.
    const std::string one =
        target == service.address ? services[0] : absl::StrCat(target, "#", services[0]);
    return client_internal::MakeClientError(
        absl::StatusCode::kInvalidArgument, client_reason::kInvalidArgument,
        absl::StrCat(target, " names several services (", service.address,
                     "); this asks one of them: name it, as in ", one));
  }
  service.address = services[0];
  return service;
}

// A connection to a service, for one call.
struct Connection {
  std::string target;
  Credentials credentials;
  std::unique_ptr<v1::Loader::Stub> stub;

  static absl::StatusOr<Connection> Open(const std::string& target, const Credentials& asked) {
    BULKHEAD_RETURN_IF_ERROR(client_internal::CheckNotForked());
    BULKHEAD_ASSIGN_OR_RETURN(auto service, OneService(target, asked));
    BULKHEAD_ASSIGN_OR_RETURN(auto channel,
                              client_internal::MakeChannel(service.address, service.credentials));
    return Connection{std::move(service.address), std::move(service.credentials),
                      v1::Loader::NewStub(channel)};
  }
  absl::Status Failure(const grpc::Status& status) const {
    return client_internal::FailureToConnect(status, target, credentials);
  }
};

std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  (void)google::protobuf::util::MessageToJsonString(message, &json, options);
  return json;
}

// The answer to a call of one message.
template <typename Request, typename Response>
absl::StatusOr<Response> Ask(grpc::Status (v1::Loader::Stub::*call)(grpc::ClientContext*,
                                                                    const Request&, Response*),
                             const Request& request, const std::string& target,
                             absl::Duration deadline, const Credentials& credentials) {
  BULKHEAD_ASSIGN_OR_RETURN(const auto service, Connection::Open(target, credentials));
  grpc::ClientContext context;
  context.set_deadline(client_internal::GrpcDeadline(deadline));
  Response response;
  const grpc::Status status = (service.stub.get()->*call)(&context, request, &response);
  if (!status.ok()) return service.Failure(status);
  return response;
}

absl::StatusOr<v1::GetStatusResponse> AskStatus(const std::string& target, absl::Duration deadline,
                                                const Credentials& credentials,
                                                bool fresh_memory = false) {
  v1::GetStatusRequest request;
  request.set_fresh_memory(fresh_memory);
  return Ask(&v1::Loader::Stub::GetStatus, request, target, deadline, credentials);
}

WorkerInfo ToWorkerInfo(const v1::WorkerStatus& status) {
  WorkerInfo info;
  info.pid = status.pid();
  info.role = status.role();
  info.state = absl::AsciiStrToLower(
      absl::StripPrefix(v1::WorkerState_Name(status.state()), "WORKER_STATE_"));
  info.threads = status.threads();
  info.memory_bytes = status.usage().memory_bytes();
  info.peak_memory_bytes = status.usage().peak_memory_bytes();
  info.quota_bytes = status.quota_bytes();
  info.cpu_seconds = status.usage().cpu_seconds();
  info.samples = status.samples();
  return info;
}

SpecDescription ToSpecDescription(const v1::Description& description,
                                  client_internal::BatchLayout layout) {
  SpecDescription result;
  result.tensors = std::move(layout.tensors);
  result.batch_size = layout.batch_size;
  result.batch_bytes = layout.batch_bytes;
  if (description.has_samples_per_epoch()) {
    result.samples_per_epoch = description.samples_per_epoch();
  }
  if (description.has_batches_per_epoch()) {
    result.batches_per_epoch = description.batches_per_epoch();
  }
  result.order_fingerprint = description.order_fingerprint();
  result.bytes_fingerprint = description.bytes_fingerprint();
  result.memory = client_internal::ToStreamMemory(description.memory());
  result.json = ToJson(description);
  return result;
}

// For a service that is busy when a trace is to end.
constexpr absl::Duration kTracePatience = absl::Seconds(15);

// Between two tries where the service was asked too often.
constexpr absl::Duration kPause = absl::Milliseconds(200);

absl::StatusOr<v1::Description> DescribeOnce(
    const Connection& connection, const v1::DescribeRequest& request,
    const std::function<void(const LoaderProgress&)>& on_progress, absl::Duration deadline) {
  grpc::ClientContext context;
  context.set_deadline(client_internal::GrpcDeadline(deadline));
  const auto reader = connection.stub->Describe(&context, request);
  v1::DescribeResponse response;
  v1::Description description;
  bool described = false;
  while (reader->Read(&response)) {
    if (response.has_progress() && on_progress) {
      on_progress(client_internal::ToLoaderProgress(response.progress()));
    } else if (response.has_description()) {
      description = response.description();
      described = true;
    }
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return connection.Failure(status);
  if (!described) return client_internal::ProtocolError("it described nothing");
  return description;
}

}  // namespace

absl::StatusOr<std::string> GetStatusJson(const std::string& target, absl::Duration deadline,
                                          const Credentials& credentials, bool fresh_memory) {
  BULKHEAD_ASSIGN_OR_RETURN(auto response, AskStatus(target, deadline, credentials, fresh_memory));
  return ToJson(response);
}

absl::Status CheckHealth(const std::string& target, absl::Duration deadline,
                         const Credentials& asked) {
  BULKHEAD_RETURN_IF_ERROR(client_internal::CheckNotForked());
  BULKHEAD_ASSIGN_OR_RETURN(const auto service, OneService(target, asked));
  const auto& [address, credentials] = service;
  BULKHEAD_ASSIGN_OR_RETURN(auto channel, client_internal::MakeChannel(address, credentials));
  // HealthCheckRequest: the service's name, in field 1.
  const std::string name = v1::Loader::service_full_name();
  const grpc::Slice request(
      absl::StrCat("\x0a", std::string(1, static_cast<char>(name.size())), name));
  grpc::ClientContext context;
  context.set_deadline(client_internal::GrpcDeadline(deadline));
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(&request, 1), &queue);
  grpc::ByteBuffer response;
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return client_internal::FailureToConnect(status, address, credentials);
  grpc::Slice answer;
  const bool whole = response.TrySingleSlice(&answer).ok();
  // HealthCheckResponse: a ServingStatus in field 1; 1: SERVING.
  if (whole && absl::string_view(reinterpret_cast<const char*>(answer.begin()), answer.size()) ==
                   "\x08\x01") {
    return absl::OkStatus();
  }
  return client_internal::MakeClientError(
      absl::StatusCode::kUnavailable, client_reason::kServiceUnavailable,
      absl::StrCat("the service at ", address,
                   " answers, but does not serve: its supervisor is silent, or it is shutting "
                   "down; `bulkhead status` tells which"),
      {{"target", address}});
}

absl::StatusOr<ServiceStatus> GetServiceStatus(const std::string& target, absl::Duration deadline,
                                               const Credentials& credentials) {
  BULKHEAD_ASSIGN_OR_RETURN(auto response, AskStatus(target, deadline, credentials));
  ServiceStatus status;
  status.version = response.version();
  status.boot_id = response.boot_id();
  status.pid = response.pid();
  status.supervisor_memory_bytes = response.supervisor().memory_bytes();
  status.supervisor_peak_memory_bytes = response.supervisor().peak_memory_bytes();
  for (const v1::WorkerStatus& worker : response.workers()) {
    status.workers.push_back(ToWorkerInfo(worker));
    status.workers_memory_bytes += worker.usage().memory_bytes();
    status.worker_peak_memory_bytes =
        std::max<uint64_t>(status.worker_peak_memory_bytes, worker.usage().peak_memory_bytes());
  }
  for (const v1::WorkerExit& exit : response.recent_exits()) {
    status.worker_peak_memory_bytes =
        std::max<uint64_t>(status.worker_peak_memory_bytes, exit.usage().peak_memory_bytes());
  }
  for (const v1::StreamStatus& stream : response.streams()) {
    status.arena_bytes += stream.arena().bytes();
  }
  status.cpu_seconds = response.cpu_seconds();
  status.samples_produced = response.samples_produced();
  status.samples_substituted = response.samples_substituted();
  status.leases_redone = response.leases_redone();
  status.worker_exits = static_cast<uint64_t>(response.recent_exits_size());
  return status;
}

absl::StatusOr<uint32_t> RecycleWorkers(const std::string& target, const std::string& pipeline,
                                        std::optional<uint32_t> slot, absl::Duration deadline,
                                        const Credentials& credentials) {
  v1::RecycleRequest request;
  request.set_pipeline(pipeline);
  if (slot.has_value()) request.set_slot(*slot);
  BULKHEAD_ASSIGN_OR_RETURN(
      const auto response, Ask(&v1::Loader::Stub::Recycle, request, target, deadline, credentials));
  return response.workers();
}

absl::StatusOr<std::vector<QuarantinedRecord>> Quarantine(const std::string& target,
                                                          QuarantineAction action,
                                                          const std::vector<std::string>& records,
                                                          absl::Duration deadline,
                                                          const Credentials& credentials) {
  v1::QuarantineRequest request;
  request.set_action(action == QuarantineAction::kList  ? v1::QuarantineRequest::ACTION_LIST
                     : action == QuarantineAction::kAdd ? v1::QuarantineRequest::ACTION_ADD
                                                        : v1::QuarantineRequest::ACTION_CLEAR);
  for (const std::string& record : records) request.add_records(record);
  BULKHEAD_ASSIGN_OR_RETURN(const auto response, Ask(&v1::Loader::Stub::Quarantine, request, target,
                                                     deadline, credentials));
  std::vector<QuarantinedRecord> list;
  for (const v1::QuarantinedRecord& record : response.records()) {
    list.push_back({record.record(), absl::FromUnixSeconds(record.time().seconds()),
                    record.reason(), record.deaths()});
  }
  return list;
}

absl::Status TraceService(const std::string& target, const TraceOptions& options,
                          const std::function<bool(const std::string& part)>& on_part,
                          const Credentials& credentials) {
  v1::TraceRequest request;
  const int64_t nanos = absl::ToInt64Nanoseconds(options.duration);
  request.mutable_duration()->set_seconds(nanos / 1'000'000'000);
  request.mutable_duration()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  request.set_stream(options.stream);
  BULKHEAD_ASSIGN_OR_RETURN(const auto service, Connection::Open(target, credentials));
  grpc::ClientContext context;
  context.set_deadline(client_internal::GrpcDeadline(options.duration + kTracePatience));
  const auto reader = service.stub->Trace(&context, request);
  v1::TraceResponse part;
  while (reader->Read(&part)) {
    if (on_part(part.SerializeAsString())) continue;
    context.TryCancel();
    reader->Finish();
    return absl::OkStatus();
  }
  const grpc::Status status = reader->Finish();
  return status.ok() ? absl::OkStatus() : service.Failure(status);
}

absl::StatusOr<SpecDescription> Describe(const DescribeOptions& options) {
  BULKHEAD_RETURN_IF_ERROR(client_internal::CheckNotForked());
  BULKHEAD_ASSIGN_OR_RETURN(auto spec, client_internal::ToSpecInput(options.spec));
  std::string target = options.target;
  std::shared_ptr<client_internal::EmbeddedService> service;
  if (target.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(
        service, client_internal::EmbeddedService::Acquire(options.embedded, options.deadline));
    target = service->target();
  }
  v1::DescribeRequest request;
  *request.mutable_spec() = std::move(spec);
  request.set_schema_only(options.schema_only);
  request.set_world_size(options.world_size);

  BULKHEAD_ASSIGN_OR_RETURN(const auto connection, Connection::Open(target, options.credentials));
  const client_internal::Deadline until(options.deadline);
  auto description = DescribeOnce(connection, request, options.on_progress, until.left());
  while (ErrorReason(description.status()) == client_internal::kOpenedTooOften &&
         until.left() > kPause) {
    absl::SleepFor(kPause);
    description = DescribeOnce(connection, request, options.on_progress, until.left());
  }
  if (!description.ok() && service != nullptr) {
    return client_internal::ForProgram(description.status(), service->log());
  }
  if (!description.ok()) return description.status();
  BULKHEAD_ASSIGN_OR_RETURN(auto layout, client_internal::MakeLayout(description->schema()));
  return ToSpecDescription(*description, std::move(layout));
}

}  // namespace bulkhead
