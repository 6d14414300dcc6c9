#pragma once

#include <cstdio>
#include <string>

#include "tools/common/options.h"

namespace bulkhead::tools {

// The help of a subcommand or a group, whose whole name is `called`, for `stream`.
std::string HelpText(const Command& command, const std::string& called, std::FILE* stream);

}  // namespace bulkhead::tools
