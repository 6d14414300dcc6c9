#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/local/temporary_folder.h"

namespace bulkhead::tools {

// A bulkheadd on a private socket that may be killed and started again at the same address. The
// program is $BULKHEAD_SERVER, else the one beside this program. Ends with its object, its folder
// too. Used by one thread at a time.
class OwnService {
 public:
  // `workers` of one thread each, 0: as the service chooses; `more` are further arguments of
  // bulkheadd.
  static absl::StatusOr<std::unique_ptr<OwnService>> Start(uint32_t workers,
                                                           std::vector<std::string> more = {});
  ~OwnService();
  OwnService(const OwnService&) = delete;
  OwnService& operator=(const OwnService&) = delete;

  const std::string& target() const { return target_; }
  pid_t pid() const { return pid_; }
  // SIGKILL, and another one at once; returns when that one listens.
  absl::Status KillAndRestart();

 private:
  OwnService(TemporaryFolder folder, uint32_t workers, std::vector<std::string> more);
  absl::Status Launch();
  void End(int signal);

  const TemporaryFolder folder_;
  const std::string target_;
  const uint32_t workers_;
  const std::vector<std::string> more_;
  pid_t pid_ = -1;
};

}  // namespace bulkhead::tools
