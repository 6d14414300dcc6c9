#include "server/service/access/known_callers.h"

#include <grpc/grpc.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/base/rate_limit.h"
#include "server/os/event_loop.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kOurMethods = "/bulkhead.v1.";

struct Door {
  AccessRights access;
  std::function<void()> on_flood;
  absl::Mutex mutex;
  RateLimit calls ABSL_GUARDED_BY(mutex){kFloodPerSecond, kFloodBurst};

  // Counts a call.
  bool Floods() ABSL_LOCKS_EXCLUDED(mutex) {
    absl::MutexLock lock(&mutex);
    return !calls.Take(MonotonicNanos());
  }
};

absl::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// The value of the first header `key`; empty: there is none.
absl::string_view Find(const grpc_metadata* headers, size_t count, absl::string_view key) {
  for (size_t i = 0; i < count; ++i) {
    if (View(headers[i].key) == key) return View(headers[i].value);
  }
  return {};
}

std::vector<std::string> NamesOf(grpc_auth_context* caller) {
  std::vector<std::string> names;
  if (grpc_auth_context_peer_is_authenticated(caller) == 0) return names;
  grpc_auth_property_iterator next = grpc_auth_context_peer_identity(caller);
  while (const grpc_auth_property* const name = grpc_auth_property_iterator_next(&next)) {
    names.emplace_back(name->value, name->value_length);
  }
  return names;
}

void Check(void* state, grpc_auth_context* caller, const grpc_metadata* headers, size_t count,
           grpc_process_auth_metadata_done_cb done, void* done_data) {
  auto& door = *static_cast<Door*>(state);
  if (door.Floods()) door.on_flood();
  absl::Status known;
  if (!absl::StartsWith(Find(headers, count, ":path"), kOurMethods)) {
    known =
        door.access.CheckAny({NamesOf(caller), BearerToken(Find(headers, count, "authorization"))});
  }
  done(done_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(known.code()),
       std::string(known.message()).c_str());
}

}  // namespace

grpc_auth_metadata_processor KnownCallersOnly(AccessRights access, std::function<void()> on_flood) {
  return {Check, [](void* state) { delete static_cast<Door*>(state); },
          new Door{std::move(access), std::move(on_flood)}};
}

}  // namespace bulkhead
