#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "server/spec/yaml/yaml.h"

namespace bulkhead {

// What the lines of a spec's error say; none of one that is right.
inline std::vector<std::string> Mistakes(absl::string_view text) {
  const auto spec = ParseSpec(text, "f");
  if (spec.ok()) return {};
  return absl::StrSplit(spec.status().message(), '\n');
}

// The one mistake of a spec over an image folder with `rest` from line 3 on.
inline std::string Mistake(absl::string_view rest) {
  const std::vector<std::string> mistakes =
      Mistakes(absl::StrCat("source: {image_folder: {path: p}}\nbatch: {size: 2}\n", rest));
  EXPECT_EQ(mistakes.size(), 1u) << testing::PrintToString(mistakes);
  return mistakes.empty() ? "" : mistakes[0];
}

inline std::string StageMistake(absl::string_view stage) {
  return Mistake(absl::StrCat("outputs: label\nstages:\n- decode_image\n- ", stage, "\n"));
}

}  // namespace bulkhead
