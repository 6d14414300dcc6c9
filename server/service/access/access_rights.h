#ifndef BULKHEAD_SERVER_SERVICE_ACCESS_ACCESS_RIGHTS_H_
#define BULKHEAD_SERVER_SERVICE_ACCESS_ACCESS_RIGHTS_H_

#include <grpcpp/server_context.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/service/access/tls_files.h"

namespace bulkhead {

namespace reason {
inline constexpr absl::string_view kAccessDenied = "ACCESS_DENIED";
}  // namespace reason

// What a client may ask of a service; docs/security.md says which calls are which.
enum class Right {
  kStream,   // Stream, Describe
  kStatus,   // GetStatus
  kOperate,  // Recycle, Quarantine
};
inline constexpr size_t kRightCount = 3;
// "stream", "status" or "operate".
const char* RightName(Right right);

// Who has which rights. Without files of TLS everyone who can connect has all of them: a Unix
// socket lets in its owner and root only, and --insecure-tcp says what it does. Thread-safe.
class AccessRights {
 public:
  // By right, the names of client certificates; "*" stands for every one that the authority signed.
  using Names = std::array<std::set<std::string>, kRightCount>;
  using TokenRights = std::set<Right>;

  AccessRights() = default;
  AccessRights(std::shared_ptr<const TlsFiles> files, Names names, TokenRights of_token)
      : files_(std::move(files)), names_(std::move(names)), of_token_(std::move(of_token)) {}

  // The name of a caller who has `right`; empty where there are no names. UNAUTHENTICATED for a
  // call without certificate and token or with a wrong token, PERMISSION_DENIED for one without the
  // right; the reason of both is ACCESS_DENIED.
  absl::StatusOr<std::string> Check(const grpc::ServerContextBase& call, Right right) const;

 private:
  std::shared_ptr<const TlsFiles> files_;
  Names names_;
  TokenRights of_token_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_ACCESS_ACCESS_RIGHTS_H_
