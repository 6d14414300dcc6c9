#include "server/metrics/enum_label.h"

#include "absl/strings/ascii.h"

namespace bulkhead {

std::map<int, std::string> EnumLabels(const google::protobuf::EnumDescriptor& type,
                                      const std::string& prefix) {
  std::map<int, std::string> labels;
  for (int i = 0; i < type.value_count(); ++i) {
    const google::protobuf::EnumValueDescriptor& value = *type.value(i);
    if (value.number() == 0) continue;
    labels[value.number()] = absl::AsciiStrToLower(value.name().substr(prefix.size()));
  }
  return labels;
}

}  // namespace bulkhead
