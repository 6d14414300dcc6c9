#pragma once

#include <spdlog/formatter.h>

#include <memory>
#include <string>

#include "server/os/files/log_output.h"

namespace bulkhead {

// The format of a log line: time, level, text. The text may contain names from outside, which must
// not look like log lines or control a terminal: further lines of a text are indented after a bar,
// and other control characters are written as "\xHH". In JSON a text is one string with its lines.
std::unique_ptr<spdlog::formatter> LogFormat(LogStyle style);

// Sends everything that this process and protobuf log to `output`, without waiting for its reader.
// `level` is a value of --log-level.
void LogTo(std::shared_ptr<LogOutput> output, const std::string& level, LogStyle style);

}  // namespace bulkhead
