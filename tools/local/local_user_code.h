#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/stages/running/user_code.h"
#include "tools/common/user_code_options.h"
#include "tools/local/confinement.h"
#include "tools/local/remote_python.h"
#include "tools/local/temporary_folder.h"

namespace bulkhead::tools {

// The user's code for a pipeline in this very process. Python functions run in an interpreter
// beside it, which is in the sandbox of a worker and ends with this object. Libraries of native
// stages are loaded into this process, which ConfineProcess puts into such a sandbox. To be used by
// one thread.
class LocalUserCode {
 public:
  // What `spec` needs. Errors: FAILED_PRECONDITION when it has Python stages and no folder was
  // named; those of Confinement::Of and RemotePython::Start; NOT_FOUND for a folder that is not
  // there.
  static absl::StatusOr<LocalUserCode> Start(const UserCodeOptions& options,
                                             const v1::PipelineSpec& spec);

  // Puts this process into the sandbox of a worker with these data for good, before it loads user
  // code; see EnterSandbox. Its own folder stays: whoever started the process removes it.
  void ConfineProcess(const v1::Source& source, const internal::v1::ResolvedSource& resolved) const;

  // Valid as long as this object.
  const UserCode& user_code() const { return user_code_; }

 private:
  TemporaryFolder scratch_;  // goes after the interpreter
  Confinement confinement_;
  std::unique_ptr<RemotePython> python_;
  UserCode user_code_;
};

}  // namespace bulkhead::tools
