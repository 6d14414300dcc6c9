// What a sample allocates once everything has its size: nothing.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/value_map.h"
#include "server/image/codecs/image_decoder.h"
#include "server/pipeline/pipeline.h"
#include "server/sampler/order.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/stages/running/user_code.h"
#include "server/worker/allocation_tracker.h"
#include "server/worker/flight_notes.h"
#include "tests/image/test_images.h"
#include "tests/source/source_testing.h"
#include "tests/source/tar_testing.h"
#include "tests/worker/refusing_allocator.h"

namespace bulkhead {
namespace {

constexpr uint32_t kPhotos = 16;
constexpr uint32_t kSamples = 320;
constexpr uint32_t kLeaseSamples = 16;  // of a lease, as the supervisor gives them
// Libraries make a few things when they are first asked for something rare.
constexpr uint32_t kWarmUps = 8;
constexpr uint64_t kNone = uint64_t{1} << 40;

// Allocations that `work` makes when it is done so often and was done more often before: in a child
// under the workers' allocator.
uint64_t AllocationsOf(uint32_t times, const std::function<void(uint32_t number)>& work) {
  auto* const found = static_cast<uint64_t*>(
      mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  if (child == 0) {
    AllocationTracker& tracker = AllocationTracker::Start();
    const FlightRecorder recorder = FlightRecorder::Create(1).value();
    tracker.Attach(recorder, true);
    RefuseAllocation(kNone);
    for (uint32_t i = 0; i < kWarmUps * times; ++i) work(i);
    const uint64_t before = LeftUntilRefusal();
    for (uint32_t i = 0; i < times; ++i) work(kWarmUps * times + i);
    *found = before - LeftUntilRefusal();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const uint64_t allocations = *found;
  munmap(found, sizeof(uint64_t));
  return allocations;
}

class SteadyAllocationsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (uint32_t i = 0; i < kPhotos; ++i) {
      photos_.push_back(MakeJpeg(90 + static_cast<int>(i), 140 - static_cast<int>(i)));
      folder_.Write(absl::StrCat("set/a/", 10 + i, ".jpg"), photos_.back());
    }
    source_.mutable_image_folder()->set_path("set");
    data_ = folder_ / "set";
  }

  // Allocations a sample of a pipeline over the photos.
  double PerSample(const std::function<void(v1::PipelineSpec&)>& add_stages) {
    v1::PipelineSpec spec;
    *spec.mutable_source() = source_;
    add_stages(spec);
    spec.mutable_batch()->set_size(kLeaseSamples);
    EXPECT_TRUE(Normalize(spec).ok());
    TestSource test;
    test.source = spec.source();
    EXPECT_EQ(test.Index(data_).value(), kPhotos);
    internal::v1::PipelineBinding binding;
    *binding.mutable_source() = test.source;
    *binding.mutable_features() = spec.features();
    *binding.mutable_resolved() = test.resolved;
    *binding.mutable_stages() = spec.stages();
    StreamView stream;
    *stream.binding.mutable_schema() = InferSignature(spec)->schema;
    stream.binding.set_samples_per_epoch(kPhotos);
    v1::Order order;
    order.mutable_sequential();
    stream.order = MakeOrder(order, 0, {kPhotos}).value();
    std::vector<std::byte> slot(stream.binding.schema().batch_bytes());
    const auto pipeline = Pipeline::Create(binding, UserCode{}).value();
    const auto context = pipeline->NewContext();
    // As a worker's thread does it: noted in the flight recorder, with seek entries.
    const FlightRecorder recorder = FlightRecorder::Create(1).value();
    recorder.SetStages(pipeline->StageNames());
    FlightNotes notes(recorder, 0);
    context->observer = &notes;
    ValueMap seek_entries;
    context->stores.seek_entries = &seek_entries;
    stream.binding.set_reads_again(true);
    const uint64_t allocations = AllocationsOf(kSamples / kLeaseSamples, [&](uint32_t number) {
      internal::v1::Lease lease;
      lease.set_epoch(number);
      lease.set_count(kLeaseSamples);
      std::vector<SubstitutedSample> substituted;
      uint64_t failed = 0;
      if (!ProduceLease(*pipeline, stream, lease, *context, slot.data(), substituted, failed)
               .ok()) {
        _exit(1);
      }
    });
    return static_cast<double>(allocations) / kSamples;
  }

  // Of one of the photos, decoded by itself.
  double PerDecode() {
    ImageDecoder decoder;
    Image image;
    const uint64_t allocations = AllocationsOf(kSamples, [&](uint32_t sample) {
      const auto size = decoder.Open(photos_[sample % kPhotos], 1'000'000);
      if (!size.ok() || !decoder.Decode(PixelFormat::kRgb, WholeImage(*size), image).ok()) _exit(1);
    });
    return static_cast<double>(allocations) / kSamples;
  }

  TempFolder folder_;
  std::vector<std::string> photos_;
  v1::Source source_;
  std::string data_;
};

TEST_F(SteadyAllocationsTest, RandomResizedCropsAllocateNothing) {
  const double decode = PerDecode();
  const double sample = PerSample([](v1::PipelineSpec& spec) {
    spec.add_stages()->mutable_decode_image();
    spec.add_stages()->mutable_random_resized_crop()->add_size(48);
    spec.add_stages()->mutable_random_horizontal_flip();
  });
  std::printf("allocations: %.2f to decode a photo, %.2f a sample\n", decode, sample);
  EXPECT_EQ(decode, 0);
  EXPECT_EQ(sample, 0);
}

TEST_F(SteadyAllocationsTest, NorDoFloatsWithTheChannelsFirst) {
  const double decode = PerDecode();
  const double sample = PerSample([](v1::PipelineSpec& spec) {
    spec.add_stages()->mutable_decode_image();
    spec.add_stages()->mutable_random_resized_crop()->add_size(48);
    spec.add_stages()->mutable_random_horizontal_flip();
    spec.add_stages()->mutable_normalize()->add_divide(255);
    spec.add_stages()->mutable_layout()->set_to(v1::IMAGE_LAYOUT_NCHW);
  });
  std::printf("allocations: %.2f to decode a photo, %.2f a sample\n", decode, sample);
  EXPECT_EQ(decode, 0);
  EXPECT_EQ(sample, 0);
}

TEST_F(SteadyAllocationsTest, NorDoSamplesOfATar) {
  std::string tar;
  for (uint32_t i = 0; i < kPhotos; ++i) {
    const std::string key = absl::StrCat("a folder with a long name/", 10 + i);
    tar += TarMemberBytes(key + ".jpg", photos_[i]) + TarMemberBytes(key + ".cls", "7\n") +
           TarMemberBytes(key + ".JSON", R"({"size": {"width": 640}, "name": "\u00e9"})");
  }
  data_ = folder_.Write("photos.tar", tar);
  source_.mutable_tar()->add_files("photos.tar");
  const double sample = PerSample([](v1::PipelineSpec& spec) {
    auto& features = *spec.mutable_features();
    features["image"].set_key("png;jpg");
    features["image"].mutable_bytes();
    features["label"].set_key("cls");
    features["label"].mutable_int64();
    features["width"].set_key("json:size/width");
    features["width"].mutable_int64();
    features["name"].set_key("json:name");
    features["name"].mutable_bytes()->set_max_bytes(64);
    features["height"].set_key("json:size/height");
    features["height"].mutable_int64()->add_default_(480);
    spec.add_stages()->mutable_decode_image();
    spec.add_stages()->mutable_random_resized_crop()->add_size(48);
  });
  std::printf("allocations: %.2f a sample\n", sample);
  EXPECT_EQ(sample, 0);
}

TEST_F(SteadyAllocationsTest, NorDoAntialiasedCrops) {
  const double sample = PerSample([](v1::PipelineSpec& spec) {
    spec.add_stages()->mutable_decode_image();
    v1::RandomResizedCrop& crop = *spec.add_stages()->mutable_random_resized_crop();
    crop.add_size(48);
    crop.set_antialias(true);
  });
  std::printf("allocations: %.2f an antialiased crop\n", sample);
  EXPECT_EQ(sample, 0);
}

TEST_F(SteadyAllocationsTest, NorDoMosaics) {
  const double sample = PerSample([](v1::PipelineSpec& spec) {
    spec.add_stages()->mutable_decode_image();
    spec.add_stages()->mutable_mosaic()->add_size(96);
  });
  std::printf("allocations: %.2f a mosaic\n", sample);
  EXPECT_EQ(sample, 0);
}

}  // namespace
}  // namespace bulkhead
