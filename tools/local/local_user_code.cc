#include "tools/local/local_user_code.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "server/spec/source_chain.h"
#include "server/worker/worker_sandbox.h"

namespace bulkhead::tools {

absl::StatusOr<LocalUserCode> LocalUserCode::Start(const UserCodeOptions& options,
                                                   const v1::PipelineSpec& spec) {
  LocalUserCode code;
  BULKHEAD_ASSIGN_OR_RETURN(code.scratch_, TemporaryFolder::Make("scratch"));
  BULKHEAD_ASSIGN_OR_RETURN(code.confinement_,
                            Confinement::Of(options, code.scratch_.path() + "/python"));
  if (const std::string stage = FirstPythonStage(spec); !stage.empty()) {
    if (options.python_paths.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(stage,
                       " runs a function of yours: name the folder of its module with "
                       "--python-path FOLDER"));
    }
    BULKHEAD_ASSIGN_OR_RETURN(
        code.python_,
        RemotePython::Start({options.python, options.python_paths, code.confinement_}));
    code.user_code_.python = code.python_.get();
  }
  for (const std::string& folder : options.native_paths) {
    BULKHEAD_ASSIGN_OR_RETURN(std::string real, RealPath(folder));
    code.user_code_.native_paths.push_back(std::move(real));
  }
  return code;
}

void LocalUserCode::ConfineProcess(const v1::Source& source,
                                   const internal::v1::ResolvedSource& resolved) const {
  Confinement own = confinement_;
  const std::string folder = scratch_.path() + "/native";
  own.bind.mutable_sandbox()->set_scratch(folder);
  *own.binding.mutable_source() = source;
  *own.binding.mutable_resolved() = resolved;
  setenv("TMPDIR", (folder + "/tmp").c_str(), 1);
  EnterPipelineSandbox(own.bind, own.binding, user_code_.native_paths);
}

}  // namespace bulkhead::tools
