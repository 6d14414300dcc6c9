#pragma once

#include <string>
#include <vector>

#include "tools/common/options.h"

namespace bulkhead::tools {

// Where stages of the user's own come from, and what they may do, as bulkheadd takes it.
struct UserCodeOptions {
  std::string python;                     // interpreter; empty: python3
  std::vector<std::string> python_paths;  // folders that functions may come from
  std::vector<std::string> native_paths;  // folders that native stages may come from
  std::string sandbox;                    // parts of the workers' sandbox; empty: all

  // --python, --python-path, --native-path and --sandbox.
  std::vector<Option> Options();
  // For a service that is started.
  std::vector<std::string> ServiceArguments() const;
};

}  // namespace bulkhead::tools
