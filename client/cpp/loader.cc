#include "bulkhead/loader.h"

#include <unistd.h>

#include <atomic>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cpp/internal/endpoint.h"
#include "client/cpp/internal/error.h"
#include "client/cpp/internal/healing_stream.h"
#include "client/cpp/internal/layout.h"
#include "client/cpp/internal/spec.h"

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
  return absl::OkStatus();
}

absl::StatusOr<v1::Open> MakeOpen(const LoaderOptions& options) {
  v1::Open open;
  auto spec = client_internal::ToSpecInput(options.spec);
  if (!spec.ok()) return spec.status();
  *open.mutable_spec() = *std::move(spec);
  if (!options.cursor.empty()) {
    auto cursor = client_internal::CursorFromJson(options.cursor);
    if (!cursor.ok()) return cursor.status();
    *open.mutable_cursor() = *std::move(cursor);
  }
  open.set_name(options.name.empty() ? OwnName() : options.name);
  open.set_rank(options.rank);
  open.set_world_size(options.world_size);
  open.set_incarnation(static_cast<uint64_t>(absl::GetCurrentTimeNanos()));
  open.set_transport(v1::TRANSPORT_GRPC);
  open.mutable_credits()->set_batches(options.credit_batches);
  open.mutable_credits()->set_bytes(options.credit_bytes);
  open.set_allow_changed_bytes(options.allow_changed_bytes);
  return open;
}

}  // namespace

Loader::Loader() = default;
Loader::~Loader() { Close(); }

absl::StatusOr<std::unique_ptr<Loader>> Loader::Open(LoaderOptions options) {
  absl::Status checked = Check(options);
  if (!checked.ok()) return checked;
  auto open = MakeOpen(options);
  if (!open.ok()) return open.status();
  std::unique_ptr<Loader> loader(new Loader);
  auto endpoint = Endpoint::Make(options.target, options.embedded, options.open_deadline);
  if (!endpoint.ok()) return endpoint.status();
  loader->endpoint_ = *std::move(endpoint);
  HealingStream::Config config;
  config.endpoint = loader->endpoint_;
  config.open = *std::move(open);
  config.on_substitution = std::move(options.on_substitution);
  config.deadline = options.reconnect_deadline;
  loader->stream_ = std::make_unique<HealingStream>(std::move(config));
  absl::Status opened = loader->stream_->WaitOpened(options.open_deadline, options.on_progress);
  if (!opened.ok()) return opened;
  return loader;
}

absl::StatusOr<std::optional<Batch>> Loader::Next(absl::Duration deadline) {
  return stream_->Next(deadline);
}

void Loader::Close() {
  if (stream_ != nullptr) stream_->Close();
  // The embedded service ends with the last loader's object, not here: target() may still be asked.
}

const StreamInfo& Loader::info() const { return stream_->info(); }
std::string Loader::target() const { return endpoint_->target(); }
std::string Loader::boot_id() const { return stream_->boot_id(); }
uint64_t Loader::reconnects() const { return stream_->reconnects(); }

}  // namespace bulkhead
