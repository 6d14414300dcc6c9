#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/objects/credentials/credentials.h"
#include "server/objects/curl.h"

namespace bulkhead {

// What providers of credentials share. `where` names the place in messages.

using Texts = std::map<std::string, std::string>;

// The text of that name, or an empty string.
std::string TextOf(const Texts& texts, const std::string& name);

// FILE_UNREADABLE with `code`.
absl::Status NoCredentials(absl::StatusCode code, absl::string_view where, absl::string_view why);

// The error of a service that was asked for credentials and answered `response`, with the store's
// code if there is one: UNAVAILABLE if it may pass, else PERMISSION_DENIED.
absl::Status ServiceFailed(absl::string_view where, const HttpResponse& response,
                           absl::string_view code);

// Credentials of the members that STS, containers and metadata services answer with. UNAVAILABLE:
// some are missing.
absl::StatusOr<std::optional<StoreCredentials>> CredentialsOf(const Texts& texts,
                                                              absl::string_view where);

// The token in a file. PERMISSION_DENIED: it cannot be read, or holds none.
absl::StatusOr<std::string> ReadToken(const std::string& path, absl::string_view where);

}  // namespace bulkhead
