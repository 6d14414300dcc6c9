#ifndef BULKHEAD_SERVER_APP_LOG_FORMAT_H_
#define BULKHEAD_SERVER_APP_LOG_FORMAT_H_

#include <spdlog/formatter.h>

#include <memory>

namespace bulkhead {

// How a line of the log looks: time, level, text. Names from outside stand in the text, and must
// not pass for lines of the log, or command a terminal: further lines of a text are indented behind
// a bar, and other control characters are written as "\xHH".
std::unique_ptr<spdlog::formatter> LogFormat();

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_LOG_FORMAT_H_
