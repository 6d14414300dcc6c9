#include "tools/common/user_code_options.h"

namespace bulkhead::tools {

std::vector<Option> UserCodeOptions::Options() {
  return {
      {"--python", "Interpreter of Python functions; left out: python3", Text(python, "PROGRAM")},
      {"--python-path", "Folder with the modules of Python functions",
       Texts(python_paths, "FOLDER")},
      {"--native-path", "Folder with the libraries of native stages",
       Texts(native_paths, "FOLDER")},
      {"--sandbox",
       "Parts of the workers' sandbox: all, none, or a list such as seccomp,landlock; left out: "
       "all",
       Text(sandbox, "PARTS")}};
}

std::vector<std::string> UserCodeOptions::ServiceArguments() const {
  std::vector<std::string> arguments;
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.insert(arguments.end(), {flag, value});
  };
  if (!python.empty()) add("--python", python);
  for (const std::string& folder : python_paths) add("--python-path", folder);
  for (const std::string& folder : native_paths) add("--native-path", folder);
  if (!sandbox.empty()) add("--sandbox", sandbox);
  return arguments;
}

}  // namespace bulkhead::tools
