#include "server/service/access/access_rights.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/base/certificate.h"
#include "server/base/error.h"
#include "server/base/record_name.h"

namespace bulkhead {
namespace {

constexpr char kTokenName[] = "the token";

// By Right.
struct RightText {
  const char* name;
  const char* calls;
};
constexpr RightText kRights[] = {
    {"stream", "stream or describe specs"},
    {"status", "ask for the status"},
    {"operate", "recycle workers or see and change the quarantine"},
    {"code", "bring code"},
};
static_assert(std::size(kRights) == kRightCount);

// The names in the connection's certificate: its alternative names or, if it has none, its common
// name.
std::vector<std::string> NamesOf(const grpc::ServerContextBase& call) {
  std::vector<std::string> names;
  const auto context = call.auth_context();
  if (context == nullptr || !context->IsPeerAuthenticated()) return names;
  for (const grpc::string_ref& name : context->GetPeerIdentity()) {
    names.emplace_back(name.data(), name.size());
  }
  return names;
}

std::string TokenOf(const grpc::ServerContextBase& call) {
  const auto found = call.client_metadata().find("authorization");
  if (found == call.client_metadata().end()) return "";
  absl::string_view header(found->second.data(), found->second.size());
  return absl::ConsumePrefix(&header, "Bearer ") ? std::string(header) : "";
}

constexpr size_t kMostShown = 256;  // of the names in a certificate

absl::Status Unknown(absl::string_view why) {
  return MakeError(absl::StatusCode::kUnauthenticated, reason::kAccessDenied, why);
}

}  // namespace

const char* RightName(Right right) { return kRights[static_cast<size_t>(right)].name; }

void AccessRights::Replace(const AccessRights& other) const {
  Names names;
  TokenRights of_token;
  {
    absl::MutexLock lock(&other.granted_->mutex);
    names = other.granted_->names;
    of_token = other.granted_->of_token;
  }
  absl::MutexLock lock(&granted_->mutex);
  granted_->names = std::move(names);
  granted_->of_token = std::move(of_token);
}

absl::StatusOr<std::string> AccessRights::Check(const grpc::ServerContextBase& call,
                                                Right right) const {
  if (files_ == nullptr) return std::string();
  return CheckOne({NamesOf(call), TokenOf(call)}, right);
}

absl::Status AccessRights::CheckAny(const grpc::ServerContextBase& call) const {
  if (files_ == nullptr) return absl::OkStatus();
  const Identity caller{NamesOf(call), TokenOf(call)};
  absl::Status checked;
  for (const Right right : {Right::kOperate, Right::kStream, Right::kCode, Right::kStatus}) {
    checked = CheckOne(caller, right).status();
    if (checked.ok() || absl::IsUnauthenticated(checked)) return checked;
  }
  return checked;
}

absl::StatusOr<std::string> AccessRights::CheckOne(const Identity& caller, Right right) const {
  const auto& [names, token] = caller;
  bool token_suffices = false;
  {
    absl::MutexLock lock(&granted_->mutex);
    const std::set<std::string>& allowed = granted_->names[static_cast<size_t>(right)];
    for (const std::string& name : names) {
      if (allowed.contains(name) || allowed.contains("*")) return Printable(name);
    }
    token_suffices = granted_->of_token.contains(right);
  }
  const auto files = files_->current();  // a copy, since they may be replaced
  const std::string& known = files->token;
  const bool knows_token = !known.empty() && !token.empty() && SameSecret(token, known);
  if (knows_token && token_suffices) return std::string(kTokenName);
  if (names.empty() && !knows_token) {
    if (known.empty()) return Unknown("this call comes without a client certificate");
    return Unknown(token.empty()
                       ? "this service wants a token or a client certificate; name the client's "
                         "file of it by BULKHEAD_TOKEN_FILE, or by BULKHEAD_TLS_CERT and "
                         "BULKHEAD_TLS_KEY"
                       : "the token is not this service's; compare the client's token file with "
                         "that of --token-instead-of-certificate");
  }
  const std::string who =
      names.empty() ? kTokenName : Printable(absl::StrJoin(names, ", ").substr(0, kMostShown));
  const std::string option = names.empty()
                                 ? absl::StrCat("--token-rights with ", RightName(right))
                                 : absl::StrCat("--allow-", RightName(right), " ",
                                                Printable(names[0].substr(0, kMostShown)));
  return MakeError(absl::StatusCode::kPermissionDenied, reason::kAccessDenied,
                   absl::StrCat(who, " may not ", kRights[static_cast<size_t>(right)].calls,
                                " here; bulkheadd allows it by ", option),
                   {{"right", RightName(right)}});
}

}  // namespace bulkhead
