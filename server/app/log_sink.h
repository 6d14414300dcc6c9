#pragma once

#include <memory>
#include <string>

#include "server/os/files/log_output.h"

namespace bulkhead {

// Sends everything that this process and protobuf log to `output`, without waiting for its reader.
// `level` is a value of --log-level.
void LogTo(std::shared_ptr<LogOutput> output, const std::string& level, LogStyle style);

}  // namespace bulkhead
