#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/golden/golden_data.h"
#include "tests/pipeline/pipeline_fixture.h"

namespace bulkhead {

inline std::string In(const std::string& stage) { return " stages { " + stage + " }"; }

// A crop that cuts nothing of an image of `golden`'s size: then the image has the one size that a
// batch needs.
inline std::string Whole(const GoldenArray& golden) {
  return In(absl::StrCat("center_crop { size: [", golden.shape[0], ", ", golden.shape[1], "] }"));
}

// Rows of `golden`, each one of all results that something random has.
inline std::set<std::string> OutcomesOf(const GoldenArray& golden) {
  const auto count = static_cast<size_t>(golden.shape[0]);
  const size_t row_bytes = golden.bytes.size() / count;
  std::set<std::string> outcomes;
  for (size_t i = 0; i < count; ++i) outcomes.insert(golden.bytes.substr(i * row_bytes, row_bytes));
  EXPECT_EQ(outcomes.size(), count);
  return outcomes;
}

// Pipelines against the arrays of one file.
class GoldenPipelineTest : public ::testing::Test {
 protected:
  explicit GoldenPipelineTest(const std::string& file) : arrays_(ReadGoldenArrays(file)) {}

  void SetUp() override { ASSERT_FALSE(arrays_.empty()); }

  const GoldenArray& Get(const std::string& name) const {
    const auto found = arrays_.find(name);
    if (found != arrays_.end()) return found->second;
    ADD_FAILURE() << "no array " << name;
    return arrays_.begin()->second;
  }

  // The names that begin with `prefix`, without it.
  std::vector<std::string> NamesOf(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const auto& [name, array] : arrays_) {
      if (absl::StartsWith(name, prefix)) names.push_back(name.substr(prefix.size()));
    }
    return names;
  }

  // The picture called `name`, as a file without loss.
  std::string FileOf(const std::string& name) const {
    const GoldenArray& array = Get(name);
    const auto extent = [&](size_t i) {
      return i < array.shape.size() ? static_cast<int>(array.shape[i]) : 1;
    };
    const ImageView view = {reinterpret_cast<const uint8_t*>(array.bytes.data()), extent(0),
                            extent(1), extent(2), static_cast<size_t>(extent(1)) * extent(2)};
    return EncodePng(view).value();
  }

  // A pipeline that decodes the picture called `picture` and runs `stages`.
  PipelineUnderTest PipelineOf(const std::string& picture, const std::string& stages,
                               bool fuse = true) const {
    const std::string decode =
        In(absl::StrCat("decode_image { channels: ", Get(picture).shape[2], " }"));
    return PipelineUnderTest(MakeSpec(decode + stages + " outputs: 'image'"),
                             {MakeRecord(FileOf(picture))}, fuse);
  }

  // What stages that leave nothing to chance make, whether they run as one or not.
  void ExpectMade(const std::string& picture, const std::string& stages,
                  const GoldenArray& golden) const {
    for (const bool fuse : {true, false}) {
      PipelineUnderTest pipeline = PipelineOf(picture, stages, fuse);
      const Produced produced = pipeline.Produce(0, {3, 1, 0});
      ASSERT_TRUE(produced.status.ok()) << produced.status;
      EXPECT_TRUE(pipeline.Output(produced, "image") == golden.bytes) << stages << " " << fuse;
    }
  }

  // What `pipeline` makes as its output `output`, cut to the size of what was recorded, is over
  // many samples what was recorded as `name`: nothing else, and nothing is missing.
  void ExpectOutcomes(PipelineUnderTest& pipeline, const std::string& output,
                      const std::string& name) const {
    SCOPED_TRACE(name);
    const std::set<std::string> expected = OutcomesOf(Get(name));
    std::set<std::string> made;
    for (uint64_t position = 0; position < 40 * expected.size(); ++position) {
      const Produced produced = pipeline.Produce(0, {3, 1, position});
      ASSERT_TRUE(produced.status.ok()) << produced.status;
      made.insert(pipeline.Output(produced, output).substr(0, expected.begin()->size()));
    }
    EXPECT_EQ(made.size(), expected.size());
    EXPECT_TRUE(made == expected);
  }
  void ExpectOutcomes(const std::string& picture, const std::string& stages,
                      const std::string& name) const {
    PipelineUnderTest pipeline = PipelineOf(picture, stages);
    ExpectOutcomes(pipeline, "image", name);
  }

  const std::map<std::string, GoldenArray> arrays_;
};

}  // namespace bulkhead
