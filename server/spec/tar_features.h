#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"

namespace bulkhead {

// In the place of an ending, the sample's key itself.
inline constexpr char kTarSampleKey[] = "__key__";

// Where a sample of a tar holds a feature's value.
struct TarPlace {
  std::string ending;  // of the member, in lower case: "jpg", "seg.png"
  bool is_json = false;
  // In a JSON member, what leads from the whole document to the value: names and numbers.
  std::vector<std::string> steps;
};

// The places that a feature's `key` names, in the order in which they are looked at. SPEC_INVALID,
// without a place, if it names none.
absl::StatusOr<std::vector<TarPlace>> ParseTarKey(absl::string_view key);

// What a tar gives whose spec declares no features: `image`, `label` and `path`.
google::protobuf::Map<std::string, v1::Feature> UsualTarFeatures();

}  // namespace bulkhead
