#ifndef BULKHEAD_SERVER_APP_LOG_SINK_H_
#define BULKHEAD_SERVER_APP_LOG_SINK_H_

#include <memory>
#include <string>

#include "server/os/files/log_output.h"

namespace bulkhead {

// Has all that this process logs, and what protobuf has to say, go to `output`, without waiting for
// its reader. `level` is one of --log-level.
void LogTo(std::shared_ptr<LogOutput> output, const std::string& level);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_LOG_SINK_H_
