#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/base/value_map.h"
#include "server/pipeline/stage_observer.h"
#include "tests/pipeline/pipeline_fixture.h"

// The same samples by fused and by unfused pipelines, whatever has happened to their files.
namespace bulkhead::fusion_testing {

inline constexpr char kDecode[] = "stages { decode_image { max_pixels: 4000000 } } ";

// Whole pipelines behind the decoder, such that every way to fuse is among them.
inline const std::vector<std::string>& Chains() {
  static const auto& chains = *[] {
    const std::string flip = "stages { random_horizontal_flip {} } ";
    const std::string floats =
        "stages { normalize { mean: [123.7, 116.3, 103.5] std: [58.4, 57.1, 57.4] } } "
        "stages { layout { to: IMAGE_LAYOUT_NCHW } } ";
    return new std::vector<std::string>{
        "stages { random_resized_crop { size: 32 } } " + flip + floats,
        "stages { resize { size: [24, 32] } } " + flip,
        "stages { boxes { format: BOX_FORMAT_XYXY } } " + flip +
            "stages { resize { size: [40, 30] } } " + floats,
        "stages { center_crop { size: 48 } } " + flip + floats,
        "stages { boxes { format: BOX_FORMAT_XYXY } } stages { random_crop { size: [40, 50] } } "
        "stages { resize { size: 20 } } " +
            flip,
        "stages { random_resized_crop { size: 32 antialias: true } } " + flip + floats,
        "stages { letterbox { size: 32 } } " + flip + floats,
    };
  }();
  return chains;
}

// `file` with the damage of one of `places` places that are spread evenly over it, headers and
// tables included: every fourth time it ends there, otherwise one of its bits is another.
inline std::string DamagedAt(std::string file, size_t place, size_t places) {
  const size_t at = file.size() * place / places;
  if (place % 4 == 3) return file.substr(0, at);
  file[at] = static_cast<char>(file[at] ^ (1 << ((place + place / 4) % 8)));
  return file;
}

// What came of a comparison.
struct FusionCount {
  int pictures = 0;
  int refused = 0;
  uint64_t by_seek_entries = 0;
  uint64_t by_coefficients = 0;

  void Add(const FusionCount& more) {
    pictures += more.pictures;
    refused += more.refused;
    by_seek_entries += more.by_seek_entries;
    by_coefficients += more.by_coefficients;
  }
};

// Takes down how the images were decoded.
class DecodeNote final : public StageObserver {
 public:
  void BeginSample(const SampleKey&) override {}
  void NameSample(absl::string_view) override {}
  void Enter(uint32_t) override {}
  void CountWork(const WorkCounts& counts) override { jpeg = counts.jpeg; }
  void EndSample() override {}
  jpeg::DecodeCounts jpeg;
};

// Makes two samples of each file by `stages`: unfused; fused; and fused with seek entries, and with
// coefficients, which the first sample makes and the second uses. All must have the same outputs,
// or the same error.
inline void ExpectFusedEqualsUnfused(const std::string& stages,
                                     const std::vector<std::string>& files, FusionCount& count) {
  SCOPED_TRACE(stages);
  const v1::PipelineSpec spec = MakeSpec(stages);
  std::vector<FakeRecord> records;
  for (const std::string& file : files) records.push_back(MakeRecord(file));
  PipelineUnderTest plain(spec, records, /*fuse=*/false);
  PipelineUnderTest fused(spec, records);
  PipelineUnderTest seeking(spec, records);
  PipelineUnderTest keeping(spec, std::move(records));
  ValueMap entries;
  ValueMap coefficients;
  DecodeNote sought;
  DecodeNote kept;
  seeking.context().stores.seek_entries = &entries;
  seeking.context().reads_again = true;
  seeking.context().observer = &sought;
  keeping.context().stores.coefficients = &coefficients;
  keeping.context().keeps_all = true;
  keeping.context().observer = &kept;
  for (size_t i = 0; i < files.size(); ++i) {
    for (uint64_t position = 0; position < 2; ++position) {
      const Produced expected = plain.Produce(i, {5, 0, position});
      const bool good = expected.status.ok();
      ASSERT_TRUE(good || IsSampleError(expected.status)) << expected.status;
      ++(good ? count.pictures : count.refused);
      for (PipelineUnderTest* other : {&fused, &seeking, &keeping}) {
        SCOPED_TRACE(other == &fused     ? "fused"
                     : other == &seeking ? "fused, with seek entries"
                                         : "fused, with coefficients");
        const Produced made = other->Produce(i, {5, 0, position});
        ASSERT_EQ(made.status, expected.status) << i;
        ASSERT_TRUE(!good || made.outputs == expected.outputs) << i;
      }
    }
  }
  count.by_seek_entries += sought.jpeg.entries_found;
  count.by_coefficients += kept.jpeg.coefficients_found;
}

}  // namespace bulkhead::fusion_testing
