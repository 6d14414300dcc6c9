#include "bulkhead/loader.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/internal/base/error.h"
#include "client/cpp/internal/batch/layout.h"
#include "client/cpp/internal/fleet/fleet_stream.h"
#include "client/cpp/internal/fleet/replicas.h"
#include "client/cpp/internal/rpc/channel.h"
#include "client/cpp/internal/service/embedded_options.h"
#include "client/cpp/internal/service/endpoint.h"
#include "client/cpp/internal/service/target_file.h"
#include "client/cpp/internal/spec/spec.h"
#include "client/cpp/internal/stream/healing_stream.h"
#include "client/cpp/internal/stream/incarnation.h"

namespace bulkhead {
namespace {

using client_internal::Endpoint;
using client_internal::HealingStream;
using client_internal::MakeClientError;

// A name that no other loader has: the newer of two of one name supersedes the older.
std::string OwnName() {
  static std::atomic<uint64_t> count{0};
  std::random_device random;
  return absl::StrFormat("cpp-%d-%d-%08x", getpid(), ++count, random());
}

absl::Status Check(const LoaderOptions& options) {
  const auto wrong = [](absl::string_view what) {
    return MakeClientError(absl::StatusCode::kInvalidArgument, client_reason::kInvalidArgument,
                           what);
  };
  if (options.spec.path.empty() && options.spec.text.empty()) return wrong("no spec was given");
  if (options.world_size == 0) return wrong("world_size must be at least 1");
  if (options.rank >= options.world_size) {
    return wrong(
        absl::StrCat("rank ", options.rank, " is not below world_size ", options.world_size));
  }
  if (options.credit_batches == 0) return wrong("credit_batches must be at least 1");
  if (options.reconnect_deadline < absl::ZeroDuration()) {
    return wrong("reconnect_deadline must not be negative");
  }
  if (options.silence_deadline <= absl::ZeroDuration()) {
    return wrong("silence_deadline must be positive");
  }
  return absl::OkStatus();
}

// Bytes of an Open message that are set when it is sent: transport, the arena door's token.
constexpr size_t kFieldsToCome = 1024;

absl::StatusOr<v1::Open> MakeOpen(const LoaderOptions& options) {
  v1::Open open;
  BULKHEAD_ASSIGN_OR_RETURN(*open.mutable_spec(), client_internal::ToSpecInput(options.spec));
  if (!options.cursor.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(*open.mutable_cursor(),
                              client_internal::CursorFromJson(options.cursor));
  }
  open.set_name(options.name.empty() ? OwnName() : options.name);
  open.set_rank(options.rank);
  open.set_world_size(options.world_size);
  static client_internal::Incarnations incarnations;
  const auto made = incarnations.Next(client_internal::Incarnation::Now());
  open.set_incarnation(made.wall_ns);
  open.set_machine_boot(made.machine_boot);
  open.set_since_boot(made.since_boot_ns);
  open.mutable_credits()->set_batches(options.credit_batches);
  // To the service 0 means its default; to us, one batch at a time.
  open.mutable_credits()->set_bytes(std::max<uint64_t>(options.credit_bytes, 1));
  open.set_allow_changed_bytes(options.allow_changed_bytes);
  open.set_keeps_all(options.keeps_all);
  open.set_share(options.share);
  const size_t size = open.ByteSizeLong() + kFieldsToCome;
  if (size > client_internal::kMaxRequestBytes) {
    return MakeClientError(
        absl::StatusCode::kInvalidArgument, client_reason::kInvalidArgument,
        absl::StrCat("the cursor is not one that a batch gave: with the spec it takes ", size,
                     " bytes, over the limit of ", client_internal::kMaxRequestBytes,
                     " of a request"));
  }
  return open;
}

bool IsOfStage(const NoteEvent& event) { return !event.stage.empty(); }
template <typename Event>
bool IsOfStage(const Event&) {
  return false;
}

// Tells events of an embedded service with the names that options have here; what a stage itself
// says stays.
template <typename Event>
std::function<void(const Event&)> WithOptions(std::function<void(const Event&)> tell,
                                              std::string Event::*text) {
  if (tell == nullptr) return tell;
  return [tell = std::move(tell), text](Event event) {
    if (!IsOfStage(event)) event.*text = client_internal::InOptions(event.*text);
    tell(event);
  };
}

}  // namespace

const char* TransportName(Transport transport) {
  switch (transport) {
    case Transport::kAuto:
      return "auto";
    case Transport::kShm:
      return "shm";
    case Transport::kGrpc:
      return "grpc";
  }
  return "unknown";
}

Loader::Loader() : process_(getpid()) {}

Loader::~Loader() {
  Close();
  if (!Forked()) return;
  // Threads that might hold their locks, or that they would wait for, stayed in the parent, whose
  // connections they share: in this process they are left as they are.
  (void)stream_.release();
  (void)new std::shared_ptr<Endpoint>(std::move(endpoint_));
}

absl::StatusOr<std::unique_ptr<Loader>> Loader::Open(LoaderOptions options) {
  BULKHEAD_RETURN_IF_ERROR(client_internal::CheckNotForked());
  BULKHEAD_RETURN_IF_ERROR(Check(options));
  HealingStream::Config config;
  BULKHEAD_ASSIGN_OR_RETURN(config.open, MakeOpen(options));
  std::unique_ptr<Loader> loader(new Loader);
  BULKHEAD_ASSIGN_OR_RETURN(
      auto service, client_internal::ResolveTarget(options.target, std::move(options.credentials)));
  BULKHEAD_ASSIGN_OR_RETURN(
      loader->endpoint_, Endpoint::Make(service.address, options.embedded, options.open_deadline));
  config.endpoint = loader->endpoint_;
  config.credentials = std::move(service.credentials);
  config.on_substitution = std::move(options.on_substitution);
  config.on_quarantine = std::move(options.on_quarantine);
  config.on_hang = std::move(options.on_hang);
  config.on_note = std::move(options.on_note);
  if (options.target.empty()) {
    config.on_quarantine = WithOptions(std::move(config.on_quarantine), &QuarantineEvent::message);
    config.on_hang = WithOptions(std::move(config.on_hang), &HangEvent::message);
    config.on_note = WithOptions(std::move(config.on_note), &NoteEvent::text);
  }
  config.on_warning = std::move(options.on_warning);
  config.transport = options.transport;
  config.deadline = options.reconnect_deadline;
  config.silence = options.silence_deadline;
  config.held_deadline = options.held_deadline;
  std::vector<std::string> targets = client_internal::FleetTargets(service.address);
  const bool is_file = client_internal::IsTargetFile(options.target);
  if (targets.empty() && is_file && !absl::StartsWith(service.address, "unix:")) {
    targets = {service.address};  // the file may name more of them later
  }
  if (!targets.empty()) {
    BULKHEAD_ASSIGN_OR_RETURN(
        auto replicas,
        client_internal::Replicas::Make(targets, is_file ? options.target : std::string()));
    BULKHEAD_ASSIGN_OR_RETURN(loader->stream_, client_internal::FleetStream::Open(
                                                   std::move(config), std::move(replicas),
                                                   options.open_deadline, options.on_progress));
    return loader;
  }
  auto stream = HealingStream::Open(std::move(config), options.open_deadline, options.on_progress);
  if (!stream.ok()) return loader->endpoint_->ForProgram(stream.status());
  loader->stream_ = *std::move(stream);
  return loader;
}

absl::StatusOr<std::optional<Batch>> Loader::Next(absl::Duration deadline) {
  if (Forked()) return client_internal::ForkedError();
  auto batch = stream_->Next(deadline);
  if (!batch.ok()) return endpoint_->ForProgram(batch.status());
  return batch;
}

void Loader::Close() {
  if (stream_ != nullptr && !Forked()) stream_->Close();
  // The embedded service ends with the last loader's object, not here: target() may still be asked.
}

bool Loader::Forked() const { return process_ != getpid(); }

const StreamInfo& Loader::info() const { return stream_->info(); }
std::string Loader::target() const { return Forked() ? "" : endpoint_->target(); }
std::string Loader::boot_id() const { return Forked() ? "" : stream_->boot_id(); }
Transport Loader::transport() const { return Forked() ? info().transport : stream_->transport(); }
std::string Loader::transport_reason() const {
  return Forked() ? info().transport_reason : stream_->transport_reason();
}
uint64_t Loader::reconnects() const { return Forked() ? 0 : stream_->reconnects(); }
LoaderStats Loader::stats() const { return Forked() ? LoaderStats() : stream_->stats(); }

}  // namespace bulkhead
