#include "server/service/access/known_callers.h"

#include <grpc/grpc.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace bulkhead {
namespace {

constexpr absl::string_view kOurMethods = "/bulkhead.v1.";

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

void Check(void* access, grpc_auth_context* caller, const grpc_metadata* headers, size_t count,
           grpc_process_auth_metadata_done_cb done, void* done_data) {
  absl::Status known;
  if (!absl::StartsWith(Find(headers, count, ":path"), kOurMethods)) {
    known = static_cast<AccessRights*>(access)->CheckAny(
        {NamesOf(caller), BearerToken(Find(headers, count, "authorization"))});
  }
  done(done_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(known.code()),
       std::string(known.message()).c_str());
}

}  // namespace

grpc_auth_metadata_processor KnownCallersOnly(AccessRights access) {
  return {Check, [](void* state) { delete static_cast<AccessRights*>(state); },
          new AccessRights(std::move(access))};
}

}  // namespace bulkhead
