#include "server/metrics/status_page.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/checksum.h"

namespace bulkhead {
namespace {

// What stands between the script's tags.
absl::string_view Script() {
  constexpr absl::string_view kBegin = "<script>";
  const absl::string_view page = kStatusHtml;
  const size_t begin = page.find(kBegin) + kBegin.size();
  return page.substr(begin, page.find("</script>") - begin);
}

}  // namespace

const std::string& StatusPagePolicy() {
  static const auto& policy = *new std::string([] {
    Sha256 digest;
    digest.Update(Script());
    return absl::StrCat("default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; ",
                        "script-src 'sha256-", absl::Base64Escape(digest.Finish()),
                        "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  }());
  return policy;
}

absl::StatusOr<std::string> StatusJson(const v1::GetStatusResponse& status) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(status, &json, options).ok()) {
    return absl::InternalError("the status cannot be written as JSON");
  }
  if (json.size() <= kMostStatusBytes) return json;
  return absl::ResourceExhaustedError(
      absl::StrCat("the status takes ", json.size(), " bytes; see `bulkhead status`"));
}

}  // namespace bulkhead
