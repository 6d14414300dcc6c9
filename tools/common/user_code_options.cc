#include "tools/common/user_code_options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/os/files/filesystem.h"
#include "server/spec/source_chain.h"

namespace bulkhead::tools {

std::vector<Option> UserCodeOptions::Options() {
  return {
      {"--python", "Interpreter of Python functions; left out: python3", Text(python, "PROGRAM")},
      {"--python-path", "Folder with the modules of Python functions",
       Texts(python_paths, "FOLDER")},
      {"--native-path", "Folder with the libraries of native stages",
       Texts(native_paths, "FOLDER")}};
}

std::vector<std::string> UserCodeOptions::ServiceArguments() const {
  std::vector<std::string> arguments;
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.insert(arguments.end(), {flag, value});
  };
  if (!python.empty()) add("--python", python);
  for (const std::string& folder : python_paths) add("--python-path", folder);
  for (const std::string& folder : native_paths) add("--native-path", folder);
  return arguments;
}

absl::StatusOr<LocalUserCode> LocalUserCode::Start(const UserCodeOptions& options,
                                                   const v1::PipelineSpec& spec) {
  LocalUserCode code;
  if (const std::string stage = FirstPythonStage(spec); !stage.empty()) {
    if (options.python_paths.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(stage,
                       " runs a function of yours: name the folder of its module with "
                       "--python-path FOLDER"));
    }
    BULKHEAD_ASSIGN_OR_RETURN(code.python_,
                              RemotePython::Start({options.python, options.python_paths}));
    code.user_code_.python = code.python_.get();
  }
  for (const std::string& folder : options.native_paths) {
    BULKHEAD_ASSIGN_OR_RETURN(std::string real, RealPath(folder));
    code.user_code_.native_paths.push_back(std::move(real));
  }
  return code;
}

}  // namespace bulkhead::tools
