#include "tools/common/status_message.h"

#include <google/protobuf/util/json_util.h>

#include "bulkhead/service.h"
#include "server/base/error.h"

namespace bulkhead::tools {

absl::StatusOr<v1::GetStatusResponse> GetStatusMessage(const std::string& target,
                                                       absl::Duration deadline, bool fresh_memory) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string json,
                            GetStatusJson(target, deadline, {}, fresh_memory));
  v1::GetStatusResponse status;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(json, &status, options).ok()) {
    return absl::InternalError("the service's status cannot be parsed");
  }
  return status;
}

}  // namespace bulkhead::tools
