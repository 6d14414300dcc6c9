#ifndef BULKHEAD_TOOLS_COMMON_USER_CODE_OPTIONS_H_
#define BULKHEAD_TOOLS_COMMON_USER_CODE_OPTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/running/user_code.h"
#include "tools/common/options.h"
#include "tools/common/remote_python.h"

namespace bulkhead::tools {

// Where stages of the user's own come from, as bulkheadd takes it.
struct UserCodeOptions {
  std::string python;                     // interpreter; empty: python3
  std::vector<std::string> python_paths;  // folders that functions may come from
  std::vector<std::string> native_paths;  // folders that native stages may come from

  // --python, --python-path and --native-path.
  std::vector<Option> Options();
  // For a service that is started.
  std::vector<std::string> ServiceArguments() const;
};

// The user's code for pipelines in this very process: Python functions run in an interpreter beside
// it, which ends with this object. To be used by one thread.
class LocalUserCode {
 public:
  // What `spec` needs. Errors: FAILED_PRECONDITION when it has Python stages and no folder was
  // named; those of RemotePython::Start; NOT_FOUND for a folder that is not there.
  static absl::StatusOr<LocalUserCode> Start(const UserCodeOptions& options,
                                             const v1::PipelineSpec& spec);

  // Valid as long as this object.
  const UserCode& user_code() const { return user_code_; }

 private:
  std::unique_ptr<RemotePython> python_;
  UserCode user_code_;
};

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_COMMON_USER_CODE_OPTIONS_H_
