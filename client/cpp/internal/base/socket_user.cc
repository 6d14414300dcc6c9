#include "client/cpp/internal/base/socket_user.h"

#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/internal/base/error.h"

namespace bulkhead::client_internal {
namespace {

constexpr size_t kUserBytes = size_t{64} << 10;

std::optional<uid_t> UserOf(const std::string& text) {
  uid_t number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  std::vector<char> buffer(kUserBytes);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwnam_r(text.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return std::nullopt;
  }
  return found->pw_uid;
}

}  // namespace

absl::Status CheckSocketUser(int fd, const std::string& path, const std::string& allowed) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return MakeClientError(absl::StatusCode::kPermissionDenied, client_reason::kUntrustedService,
                           absl::StrCat("the system does not tell whose service listens at ", path,
                                        ": ", std::strerror(errno)),
                           {{"path", path}});
  }
  return CheckUser(peer.uid, geteuid(), path, allowed);
}

absl::Status CheckUser(uid_t peer, uid_t own, const std::string& path, const std::string& allowed) {
  if (peer == own || peer == 0) return absl::OkStatus();
  if (!allowed.empty()) {
    const std::optional<uid_t> user = UserOf(allowed);
    if (!user.has_value()) {
      return MakeClientError(absl::StatusCode::kInvalidArgument, client_reason::kInvalidArgument,
                             absl::StrCat("there is no user '", allowed,
                                          "'; BULKHEAD_SOCKET_USER is a user's name or number"));
    }
    if (peer == *user) return absl::OkStatus();
  }
  return MakeClientError(
      absl::StatusCode::kPermissionDenied, client_reason::kUntrustedService,
      absl::StrCat("user ", peer, " listens at ", path, ", neither this process's user ", own,
                   " nor root", allowed.empty() ? "" : absl::StrCat(" nor ", allowed),
                   ". If that service is the one you mean, set BULKHEAD_SOCKET_USER=", peer),
      {{"path", path}, {"user", absl::StrCat(peer)}});
}

}  // namespace bulkhead::client_internal
