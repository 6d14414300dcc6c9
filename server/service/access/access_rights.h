#pragma once

#include <grpcpp/server_context.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/service/access/tls_files.h"

namespace bulkhead {

// The rights of clients; docs/security.md lists the calls that each allows.
enum class Right {
  kStream,   // Stream, Describe
  kStatus,   // GetStatus, Trace
  kOperate,  // Recycle, Quarantine
  kCode,     // PutDataset, and streams that read what it brought
};
inline constexpr size_t kRightCount = 4;
// "stream", "status", "operate" or "code".
const char* RightName(Right right);

// Which clients have which rights. Without TLS files everyone who can connect has all rights: a
// Unix socket admits only its owner and root, and --insecure-tcp is insecure by choice.
// Thread-safe.
class AccessRights {
 public:
  // By right, the names of client certificates; "*": every certificate that the authority signed.
  using Names = std::array<std::set<std::string>, kRightCount>;
  using TokenRights = std::set<Right>;

  AccessRights() : AccessRights(nullptr, {}, {}) {}
  AccessRights(std::shared_ptr<const TlsFiles> files, Names names, TokenRights of_token)
      : files_(std::move(files)),
        granted_(std::make_shared<Granted>(std::move(names), std::move(of_token))) {}

  // Grants from now on what `other` grants, to calls that begin later. This affects copies of this
  // object, too.
  void Replace(const AccessRights& other) const;

  // The name of a caller who has `right`; empty where there are no names. UNAUTHENTICATED for a
  // call without certificate and token or with a wrong token, PERMISSION_DENIED for one without the
  // right; the reason of both is ACCESS_DENIED.
  absl::StatusOr<std::string> Check(const grpc::ServerContextBase& call, Right right) const;
  // Whether a caller has any right at all. Errors: those of Check.
  absl::Status CheckAny(const grpc::ServerContextBase& call) const;

 private:
  // What a caller shows.
  struct Identity {
    std::vector<std::string> names;  // in its certificate; empty: it has none
    std::string token;               // empty: it has none
  };
  struct Granted {
    Granted(Names by_name, TokenRights by_token)
        : names(std::move(by_name)), of_token(std::move(by_token)) {}

    absl::Mutex mutex;
    Names names ABSL_GUARDED_BY(mutex);
    TokenRights of_token ABSL_GUARDED_BY(mutex);
  };

  absl::StatusOr<std::string> CheckOne(const Identity& caller, Right right) const;

  std::shared_ptr<const TlsFiles> files_;
  std::shared_ptr<Granted> granted_;
};

}  // namespace bulkhead
