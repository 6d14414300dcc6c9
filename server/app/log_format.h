#ifndef BULKHEAD_SERVER_APP_LOG_FORMAT_H_
#define BULKHEAD_SERVER_APP_LOG_FORMAT_H_

#include <spdlog/formatter.h>

#include <memory>

namespace bulkhead {

// The format of a log line: time, level, text. The text may contain names from outside, which must
// not look like log lines or control a terminal: further lines of a text are indented after a bar,
// and other control characters are written as "\xHH".
std::unique_ptr<spdlog::formatter> LogFormat();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_LOG_FORMAT_H_
