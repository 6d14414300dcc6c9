#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "server/pipeline/pipeline.h"
#include "server/stages/running/user_code.h"
#include "tests/pipeline/pipeline_fixture.h"
#include "tests/source/source_testing.h"

namespace bulkhead {
namespace {

using testing::HasSubstr;

internal::v1::PipelineBinding BindingOf(const v1::PipelineSpec& spec, const TestSource& test) {
  internal::v1::PipelineBinding binding;
  *binding.mutable_source() = test.source;
  *binding.mutable_features() = test.features;
  *binding.mutable_stages() = spec.stages();
  *binding.mutable_outputs() = spec.outputs();
  *binding.mutable_resolved() = test.resolved;
  return binding;
}

// Image folder → decode → resize: the pixels of the fake source's way, from real files.
TEST(CreatePipelineTest, ProducesFromAnImageFolderWhatAFakeSourceGives) {
  const std::string stages =
      "stages { decode_image {} } stages { random_resized_crop { size: 16 } } ";
  const std::vector<std::string> files = {MakeJpeg(40, 50), MakeJpeg(33, 44)};
  TempFolder folder;
  folder.Write("set/cat/1.jpg", files[0]);
  folder.Write("set/dog/1.jpg", files[1]);
  folder.Write("set/dog/2.jpg", files[1].substr(0, 300));
  TestSource test;
  test.source.mutable_image_folder()->set_path("set");
  test.source.mutable_image_folder()->add_extensions("jpg");
  ASSERT_EQ(test.Index(folder / "set").value(), 3u);
  const v1::PipelineSpec spec =
      MakeSpec(stages,
               "source { image_folder { path: \"set\" } } batch { size: 2 } outputs: \"image\" "
               "outputs: \"label\" ");
  const auto pipeline = Pipeline::Create(BindingOf(spec, test), UserCode{});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  EXPECT_EQ((*pipeline)->record_count(), 3u);

  PipelineUnderTest fake(MakeSpec(stages + "outputs: \"image\""),
                         {MakeRecord(files[0]), MakeRecord(files[1])});
  const auto context = (*pipeline)->NewContext();
  for (uint64_t record = 0; record < 2; ++record) {
    std::string image(16 * 16 * 3, '\xA5');
    int64_t label = -1;
    std::byte* const destinations[] = {reinterpret_cast<std::byte*>(image.data()),
                                       reinterpret_cast<std::byte*>(&label)};
    const SampleKey key{4, 5, 6 + record};
    const absl::Status status = (*pipeline)->Produce(record, key, *context, destinations);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(label, static_cast<int64_t>(record));
    EXPECT_TRUE(image == fake.Produce(record, key).outputs[0]);
  }
  std::byte scratch[16 * 16 * 3];
  std::byte* const destinations[] = {scratch, scratch};
  const absl::Status cut = (*pipeline)->Produce(2, {0, 0, 8}, *context, destinations);
  EXPECT_TRUE(IsSampleError(cut));
  EXPECT_EQ(ReasonOf(cut), reason::kTruncatedImage);
  EXPECT_THAT(std::string(cut.message()), HasSubstr("dog/2.jpg: stages[0] decode_image"));
}

TEST(CreatePipelineTest, RangeNeedsNoImages) {
  TestSource test;
  test.source.mutable_range()->set_size(5);
  v1::PipelineSpec spec;
  auto* cast = spec.add_stages()->mutable_cast();
  cast->set_input("index");
  cast->set_dtype(v1::DTYPE_FLOAT32);
  const auto pipeline = Pipeline::Create(BindingOf(spec, test), UserCode{});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  const auto context = (*pipeline)->NewContext();
  float index = -1;
  std::byte* const destinations[] = {reinterpret_cast<std::byte*>(&index)};
  ASSERT_TRUE((*pipeline)->Produce(3, {}, *context, destinations).ok());
  EXPECT_EQ(index, 3.0f);
}

TEST(CreatePipelineTest, DamagedBindingIsRefusedAndNotRun) {
  TestSource test;
  test.source.mutable_range()->set_size(5);
  v1::PipelineSpec spec;
  spec.add_stages()->mutable_resize()->add_size(8);
  const auto pipeline = Pipeline::Create(BindingOf(spec, test), UserCode{});
  EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace bulkhead
