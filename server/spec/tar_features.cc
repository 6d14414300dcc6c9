#include "server/spec/tar_features.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/spec/source_signature.h"

namespace bulkhead {
namespace {

// JSON that nests deeper is not read.
constexpr size_t kMostSteps = 64;

template <typename... Parts>
absl::Status InvalidKey(const Parts&... what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid, absl::StrCat(what...));
}

bool IsJson(absl::string_view ending) {
  return ending == "json" || absl::EndsWith(ending, ".json");
}

}  // namespace

absl::StatusOr<std::vector<TarPlace>> ParseTarKey(absl::string_view key) {
  std::vector<TarPlace> places;
  for (const absl::string_view written : absl::StrSplit(key, ';')) {
    const size_t colon = written.find(':');
    TarPlace place;
    place.ending = absl::AsciiStrToLower(absl::StripAsciiWhitespace(written.substr(0, colon)));
    place.is_json = IsJson(place.ending);
    if (place.ending.empty()) {
      return InvalidKey("names no ending; write such as key: jpg, key: \"jpg;png\" or json:width");
    }
    if (place.ending[0] == '.' || absl::StrContains(place.ending, '/')) {
      return InvalidKey(
          "has the ending `", place.ending,
          "`; an ending is what follows the first dot of a member's name, such as jpg or seg.png");
    }
    if (colon != absl::string_view::npos) {
      if (!place.is_json) {
        return InvalidKey("leads into `", place.ending,
                          "`; only members that end with json hold values by name");
      }
      for (const absl::string_view step : absl::StrSplit(written.substr(colon + 1), '/')) {
        if (place.steps.size() == kMostSteps) {
          return InvalidKey("leads through more than ", kMostSteps, " names");
        }
        if (step.empty()) return InvalidKey("has an empty name behind `json:`; write json:width");
        // As RFC 6901 writes names; StrReplaceAll looks at no byte twice.
        place.steps.push_back(absl::StrReplaceAll(step, {{"~1", "/"}, {"~0", "~"}}));
      }
    }
    places.push_back(std::move(place));
  }
  return places;
}

google::protobuf::Map<std::string, v1::Feature> UsualTarFeatures() {
  google::protobuf::Map<std::string, v1::Feature> features;
  features["image"].set_key("jpg;jpeg;png;webp");
  features["image"].mutable_bytes();
  features["label"].set_key("cls");
  features["label"].mutable_int64();
  features["path"].set_key(kTarSampleKey);
  features["path"].mutable_bytes()->set_max_bytes(kDefaultMaxPathBytes);
  return features;
}

}  // namespace bulkhead
