#include "tools/inspect/spec_data.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/base/error.h"
#include "server/base/nearest_name.h"
#include "server/base/paths/object_url.h"
#include "server/os/files/filesystem.h"
#include "server/source/tar/json_cursor.h"
#include "server/spec/record_files.h"
#include "server/spec/source_signature.h"
#include "server/spec/tar_features.h"
#include "tools/local/local_pipeline.h"

namespace bulkhead::tools {
namespace {

// What is looked at to tell a COCO file from a spec.
constexpr size_t kCocoHeadBytes = 64 << 10;

std::vector<std::string> PathsOf(const v1::Source& source) {
  if (HasRecordFiles(source)) {
    const auto& files = *RecordFilesOf(source).files;
    return {files.begin(), files.end()};
  }
  if (source.has_image_list()) return {source.image_list().path()};
  if (source.has_image_folder()) return {source.image_folder().path()};
  return {};
}

bool IsCocoField(absl::string_view name) {
  return name == "images" || name == "annotations" || name == "categories" || name == "licenses" ||
         name == "info";
}

// Whether a sample of a tar that was looked at holds the feature.
bool TarHolds(const std::string& name, const v1::Feature& feature,
              const std::vector<std::string>& keys) {
  const auto places = ParseTarKey(feature.key().empty() ? name : feature.key());
  return !places.ok() || std::any_of(places->begin(), places->end(), [&](const TarPlace& place) {
    const std::string json = place.ending + ":";
    return place.ending == kTarSampleKey ||
           std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
             return key == place.ending || absl::StartsWith(key, json);
           });
  });
}

}  // namespace

bool IsSpecFile(const std::string& path) {
  return absl::EndsWith(path, ".yaml") || absl::EndsWith(path, ".yml") ||
         absl::EndsWith(path, ".json");
}

bool IsCocoJson(const std::string& path) {
  if (!absl::EndsWith(path, ".json")) return false;
  const auto head = ReadPrefix(path, kCocoHeadBytes);
  if (!head.ok()) return false;
  JsonCursor cursor(absl::StripPrefix(*head, "\xef\xbb\xbf"));
  if (!cursor.Take('{')) return false;
  absl::string_view name;
  absl::string_view value;
  while (cursor.TakeString(name) && cursor.Take(':')) {
    if (IsCocoField(name)) return true;
    if (!cursor.TakeValue(value) || !cursor.Take(',')) return false;
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> DataOf(const v1::PipelineSpec& spec,
                                                const std::string& path) {
  const auto absolute = [&](const std::string& data) {
    if (IsObjectUrl(data)) return data;
    return (std::filesystem::path(SpecFolder(path)) / data).string();
  };
  const auto refuse = [&](absl::string_view what) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kSpecInvalid,
                     absl::StrCat(path, ": ", what));
  };
  std::vector<std::string> data = PathsOf(spec.source());
  std::transform(data.begin(), data.end(), data.begin(), absolute);
  if (spec.source().has_range()) return refuse("reads no data, its source is a range of integers");
  if (spec.source().has_mixture()) {
    for (const v1::MixedSource& mixed : spec.source().mixture().sources()) {
      for (const std::string& one : PathsOf(mixed.source())) data.push_back(absolute(one));
    }
    return refuse(absl::StrCat("is a mixture; inspect the data of each source by itself: ",
                               absl::StrJoin(data, ", ")));
  }
  if (data.empty() || data[0] == absolute("")) {
    return refuse("holds its list itself (`entries`); `bulkhead scan` looks at such data");
  }
  return data;
}

std::vector<std::string> RecordKeysOf(const std::string& name, const v1::Feature& feature) {
  const std::string key = !feature.key().empty() ? feature.key()
                          : feature.has_boxes()  ? kBoxesKey
                                                 : name;
  if (!feature.has_boxes()) return {key};
  std::vector<std::string> keys;
  for (const absl::string_view side : kBoxSides) keys.push_back(absl::StrCat(key, "/", side));
  return keys;
}

std::vector<std::string> LackingFeatures(const v1::PipelineSpec& spec,
                                         const ExampleSurvey& survey) {
  std::vector<std::string> keys;
  for (const auto& [key, feature] : survey.features()) keys.push_back(key);
  std::vector<std::string> lists;
  for (const auto& [key, list] : survey.steps().lists()) lists.push_back(key);
  std::vector<std::string> lacking;
  for (const auto& [name, feature] : spec.features()) {
    if (spec.source().has_tar()) {
      if (!TarHolds(name, feature, keys)) {
        lacking.push_back(absl::StrCat("features.", name, ": no sample that was looked at holds `",
                                       feature.key(), "`"));
      }
      continue;
    }
    for (const std::string& key : RecordKeysOf(name, feature)) {
      const std::vector<std::string>& held = feature.sequence().empty() ? keys : lists;
      if (std::binary_search(held.begin(), held.end(), key)) continue;
      const std::string near = NearestName(key, held);
      lacking.push_back(absl::StrCat("features.", name, ": no record that was looked at holds ",
                                     feature.sequence().empty() ? "`" : "the list `", key, "`",
                                     near.empty() ? "" : "; did you mean `", near,
                                     near.empty() ? "" : "`?"));
    }
  }
  std::sort(lacking.begin(), lacking.end());
  return lacking;
}

}  // namespace bulkhead::tools
