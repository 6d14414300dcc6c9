#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "bulkhead/loader.h"
#include "client/cpp/internal/service/embedded.h"

namespace bulkhead::client_internal {

// Where a loader's service is: an address that stays, or an embedded service that is replaced when
// it dies. Holds its embedded service until it is destroyed. Thread-safe.
class Endpoint {
 public:
  // An empty `target` starts an embedded service, or shares the process's; errors as Acquire's.
  static absl::StatusOr<std::shared_ptr<Endpoint>> Make(const std::string& target,
                                                        const EmbeddedOptions& options,
                                                        absl::Duration deadline);

  std::string target() const ABSL_LOCKS_EXCLUDED(mutex_);
  bool embedded() const { return embedded_; }
  // Makes sure that an embedded service is alive; does nothing for an address. A service that
  // starts for longer than `deadline`, or until `cancelled`, is given up.
  absl::Status Revive(absl::Duration deadline, const std::function<bool()>& cancelled)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the embedded service at `target`, which does not answer; does nothing for an address and
  // for a service that was replaced since.
  void KillSilent(const std::string& target) ABSL_LOCKS_EXCLUDED(mutex_);
  // How the embedded service ended; empty while it runs and for an address.
  std::string PostMortem() const ABSL_LOCKS_EXCLUDED(mutex_);
  // An error of its service as it is told to the program (service_log.h); of an address as it is.
  absl::Status ForProgram(const absl::Status& error) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Endpoint(const EmbeddedOptions& options, bool embedded)
      : options_(options), embedded_(embedded) {}

  const EmbeddedOptions options_;
  const bool embedded_;
  mutable absl::Mutex mutex_;
  std::string target_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<EmbeddedService> service_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bulkhead::client_internal
