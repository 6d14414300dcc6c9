#include "server/spec/normalize/normalize.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/spec/stage_signature.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::PipelineSpec Normalized(v1::PipelineSpec spec) {
  const absl::Status status = Normalize(spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec;
}

static_assert(kDefaultMaxPixels >= 7680 * 4320, "8K photos are taken by default");

TEST(NormalizeTest, FillsInDefaults) {
  const auto spec = Normalized(FolderSpec(R"(
    stages { decode_image {} } stages { resize { size: 7 } }
    stages { random_resized_crop { size: [4, 5] } } stages { random_horizontal_flip {} }
    stages { normalize { mean: 1 } } stages { one_hot { classes: 2 } } )"));
  EXPECT_THAT(spec, testing::Truly([](const v1::PipelineSpec& actual) {
                auto wanted = FolderSpec(R"(
    stages { decode_image { input: 'image' channels: 3 color: COLOR_RGB max_pixels: 36000000 } }
    stages { resize { input: 'image' size: [7, 7] interpolation: INTERPOLATION_LINEAR } }
    stages { random_resized_crop { input: 'image' size: [4, 5] scale: [0.08, 1]
             ratio: [0.75, 1.3333333333333333] interpolation: INTERPOLATION_LINEAR } }
    stages { random_horizontal_flip { input: 'image' probability: 0.5 } }
    stages { normalize { input: 'image' mean: 1 std: 1 } }
    stages { one_hot { input: 'label' classes: 2 } }
    order { sequential {} } errors { policy: ERROR_ACTION_FAIL })");
                wanted.mutable_batch()->set_last(v1::LAST_BATCH_PARTIAL);
                auto& folder = *wanted.mutable_source()->mutable_image_folder();
                folder.set_max_path_bytes(256);
                for (const char* extension :
                     {"bmp", "jpeg", "jpg", "pgm", "png", "ppm", "tif", "tiff", "webp"}) {
                  folder.add_extensions(extension);
                }
                return google::protobuf::util::MessageDifferencer::Equals(actual, wanted);
              }))
      << spec.DebugString();
}

std::string NormalizedOrder(const std::string& order) {
  return Normalized(FolderSpec(absl::StrCat("order { ", order, " }"))).order().ShortDebugString();
}

TEST(NormalizeTest, FillsInDefaultsOfOrders) {
  EXPECT_EQ(NormalizedOrder("global {}"), "global { reshuffle: true }");
  EXPECT_EQ(NormalizedOrder("sequential {}"), "sequential { }");
  EXPECT_EQ(NormalizedOrder("sequential { shuffle_files: true }"),
            "sequential { shuffle_files: true reshuffle: true }");
  EXPECT_EQ(NormalizedOrder("interleave { cycle_length: 4 }"),
            "interleave { cycle_length: 4 block_length: 1 }");
  EXPECT_EQ(NormalizedOrder("interleave { cycle_length: 4 shuffle_files: true reshuffle: false }"),
            "interleave { cycle_length: 4 block_length: 1 shuffle_files: true reshuffle: false }");
  EXPECT_EQ(NormalizedOrder("block { block_size: 8 }"),
            "block { block_size: 8 window: 16 reshuffle: true }");
}

TEST(NormalizeTest, OrdersSayWhatTheyNeed) {
  const auto problem = [](const std::string& order) {
    auto spec = FolderSpec(absl::StrCat(
        "stages { decode_image {} } stages { resize { size: 7 } } order { ", order, " }"));
    return std::string(Normalize(spec).message());
  };
  EXPECT_THAT(
      problem("interleave {}"),
      HasSubstr("order.interleave.cycle_length: is required: how many files are read at a time, "
                "at least 1; write `interleave: {cycle_length: 4}`"));
  EXPECT_THAT(problem("block { window: 3 }"), HasSubstr("order.block.block_size: is required"));
  for (const char* order :
       {"sequential { reshuffle: true }", "interleave { cycle_length: 2 reshuffle: false }"}) {
    EXPECT_THAT(problem(order), HasSubstr("reshuffle: goes with shuffle_files: true only"));
  }
}

TEST(NormalizeTest, IsIdempotent) {
  const v1::PipelineSpec specs[] = {
      FolderSpec("stages { decode_image { channels: 1 } } batch { drop_remainder: true } "
                 "order { global {} } errors { policy: ERROR_ACTION_SUBSTITUTE }"),
      RecordSpec("features { key: 'a' value { int64 {} } } "
                 "stages { normalize { input: 'a' divide: 2 } }"),
      FromText<v1::PipelineSpec>("source { image_list { path: 'a' } } batch { size: 1 } "
                                 "order { interleave { cycle_length: 2 shuffle_files: true } }"),
      FromText<v1::PipelineSpec>("source { range { size: 9 } } batch { size: 1 } "
                                 "order { block { block_size: 4 } }")};
  for (const v1::PipelineSpec& spec : specs) {
    const v1::PipelineSpec once = Normalized(spec);
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(once, Normalized(once)))
        << once.DebugString();
    EXPECT_FALSE(google::protobuf::util::MessageDifferencer::Equals(once, spec));
  }
}

TEST(NormalizeTest, ChannelsAndColorAgree) {
  const auto color = [](const char* text) {
    return Normalized(FolderSpec(absl::StrCat("stages { decode_image {", text, "} }")))
        .stages(0)
        .decode_image();
  };
  EXPECT_EQ(color("channels: 1").color(), v1::COLOR_GRAY);
  EXPECT_EQ(color("channels: 4").color(), v1::COLOR_RGBA);
  EXPECT_EQ(color("color: COLOR_GRAY").channels(), 1u);
  EXPECT_EQ(color("color: COLOR_BGR channels: 3").color(), v1::COLOR_BGR);
}

TEST(NormalizeTest, DropRemainderIsAWordForLast) {
  EXPECT_EQ(Normalized(FolderSpec("batch { drop_remainder: true }")).batch().last(),
            v1::LAST_BATCH_DROP);
  const auto spec = Normalized(FolderSpec("batch { drop_remainder: false }"));
  EXPECT_EQ(spec.batch().last(), v1::LAST_BATCH_PARTIAL);
  EXPECT_FALSE(spec.batch().has_drop_remainder());
}

TEST(NormalizeTest, RefusesWhatMakesNoSense) {
  const struct {
    const char* text;
    const char* path;
  } cases[] = {
      {"batch { drop_remainder: true last: LAST_BATCH_DROP }", "batch.drop_remainder"},
      {"batch { size: 16777217 }", "batch.size"},
      {"epochs: 0", "epochs"},
      {"errors { max_fraction: 0.5 }", "errors.max_fraction"},
      {"errors { policy: ERROR_ACTION_SUBSTITUTE max_fraction: 1.5 }", "errors.max_fraction"},
      {"errors { policy: ERROR_ACTION_SUBSTITUTE max_fraction: nan }", "errors.max_fraction"},
      {"outputs: ''", "outputs[0]"},
      {"source { image_folder { path: '' extensions: '.jpg' } }",
       "source.image_folder.extensions[0]"},
      {"source { image_folder { max_path_bytes: 65537 } }", "source.image_folder.max_path_bytes"},
      {"source { tfrecord {} }", "source.tfrecord.files"},
      {"source { tfrecord { files: ['a', ''] } }", "source.tfrecord.files[1]"},
      {"source { image_list {} }", "source.image_list.path"},
      {"source { image_list { path: 'a' entries: 'b' } }", "source.image_list.entries"},
      {"source { image_list { path: 'a' unlabeled: true labels: 'b' } }",
       "source.image_list.labels"},
      {"source { image_list { path: 'a' images: ['x', 'x'] } }", "source.image_list.images[1]"},
      {"source { image_list { path: 'a' labels: 'path' } }", "source.image_list.labels[0]"},
      {"source { image_list { path: 'a' labels: '9' } }", "source.image_list.labels[0]"},
      {"source { image_list { path: 'a' label_dtype: DTYPE_INT8 } }",
       "source.image_list.label_dtype"},
      {"source { image_list { path: 'a' classes: ['x', 'y', 'x'] } }",
       "source.image_list.classes[2]"},
      {"source { image_list { path: 'a' classes: ['x', ''] } }", "source.image_list.classes[1]"},
      {"source { image_list { path: 'a' classes: 'x' label_dtype: DTYPE_FLOAT32 } }",
       "source.image_list.classes"},
      {"source { image_folder { path: 'a' classes: 'x' unlabeled: true } }",
       "source.image_folder.classes"},
      {"source { image_list { path: 'a' classes: 'x' classes_file: 'b' } }",
       "source.image_list.classes_file"},
      {"source { image_list { path: 'a' classes_file: 'b' label_dtype: DTYPE_FLOAT32 } }",
       "source.image_list.classes_file"},
      {"source { image_folder { path: 'a' classes_file: 'b' unlabeled: true } }",
       "source.image_folder.classes_file"},
      {"source { image_list { path: 'a' classes_file: 's3://b/*.txt' } }",
       "source.image_list.classes_file"},
      {"source { image_folder { path: 'a' classes_file: 's3://b' } }",
       "source.image_folder.classes_file"},
      {"source { range {} }", "source.range.size"},
      {"source { range { size: 9223372036854775808 } }", "source.range.size"},
      {"features { key: 'x' value { int64 {} } }", "features"},
      {"stages {}", "stages[0]"},
      {"stages { decode_image { channels: 2 } }", "stages[0].decode_image.channels"},
      {"stages { decode_image { channels: 1 color: COLOR_BGR } }",
       "stages[0].decode_image.channels"},
      {"stages { resize {} }", "stages[0].resize.size"},
      {"stages { resize { size: [1, 2, 3] } }", "stages[0].resize.size"},
      {"stages { resize { size: 65536 } }", "stages[0].resize.size"},
      {"stages { center_crop { size: 0 } }", "stages[0].center_crop.size"},
      {"stages { random_resized_crop { size: 1 scale: 0.5 } }",
       "stages[0].random_resized_crop.scale"},
      {"stages { random_resized_crop { size: 1 scale: [0.5, 1.1] } }",
       "stages[0].random_resized_crop.scale"},
      {"stages { random_resized_crop { size: 1 scale: [nan, 1] } }",
       "stages[0].random_resized_crop.scale"},
      {"stages { random_resized_crop { size: 1 ratio: [2, 1] } }",
       "stages[0].random_resized_crop.ratio"},
      {"stages { random_resized_crop { size: 1 ratio: [0, 1] } }",
       "stages[0].random_resized_crop.ratio"},
      {"stages { random_horizontal_flip { probability: nan } }",
       "stages[0].random_horizontal_flip.probability"},
      {"stages { random_horizontal_flip { probability: 1.01 } }",
       "stages[0].random_horizontal_flip.probability"},
      {"stages { normalize {} }", "stages[0].normalize"},
      {"stages { normalize { mean: 1 divide: 2 } }", "stages[0].normalize"},
      {"stages { normalize { mean: nan } }", "stages[0].normalize.mean"},
      {"stages { normalize { std: [1, 0] } }", "stages[0].normalize.std"},
      {"stages { normalize { divide: 0 } }", "stages[0].normalize.divide"},
      {"stages { normalize { subtract: inf } }", "stages[0].normalize.subtract"},
      {"stages { cast {} }", "stages[0].cast.dtype"},
      {"stages { cast { dtype: DTYPE_BYTES } }", "stages[0].cast.dtype"},
      {"stages { layout {} }", "stages[0].layout.to"},
      {"stages { one_hot {} }", "stages[0].one_hot.classes"},
      {"stages { one_hot { classes: 2000000000 } }", "stages[0].one_hot.classes"},
  };
  for (const auto& [text, path] : cases) {
    auto spec = FolderSpec("");
    const auto change = FromText<v1::PipelineSpec>(text);
    spec.MergeFrom(change);
    if (change.source().has_image_folder() && change.source().image_folder().path().empty()) {
      spec.mutable_source()->mutable_image_folder()->set_path("photos");
    }
    EXPECT_EQ(ErrorPath(Normalize(spec)), path) << text;
  }
}

TEST(NormalizeTest, RefusesFeaturesThatMakeNoSense) {
  const struct {
    const char* text;
    const char* path;
  } cases[] = {
      {"key: '9x' value { int64 {} }", "features.9x"},
      {"key: '' value { int64 {} }", "features."},
      {"key: 'x y' value { int64 {} }", "features.x y"},
      {"key: 'x' value {}", "features.x"},
      {"key: 'x' value { bytes { max_bytes: 1 default: 'ab' } }", "features.x.bytes.default"},
      {"key: 'x' value { int64 { shape: 3 default: [1, 2] } }", "features.x.int64.default"},
      {"key: 'x' value { float { shape: -1 max_count: 3 default: 1 } }",
       "features.x.float.default"},
      {"key: 'x' value { tensor { dtype: DTYPE_INT8 } }", "features.x.tensor.shape"},
      {"key: 'x' value { tensor { dtype: DTYPE_INT8 shape: 2 allow_missing: true } }",
       "features.x.tensor.allow_missing"},
      {"key: 'x' value { int64 { shape: -1 } }", "features.x.int64.shape"},
  };
  for (const auto& [text, path] : cases) {
    auto spec = RecordSpec(absl::StrCat("features {", text, "}"));
    EXPECT_EQ(ErrorPath(Normalize(spec)), path) << text;
  }
}

TEST(NormalizeTest, UnknownEnumNumbersAreRefused) {
  auto spec = FolderSpec("stages { resize { size: 1 } }");
  spec.mutable_batch()->set_last(static_cast<v1::LastBatch>(77));
  spec.mutable_stages(0)->mutable_resize()->set_interpolation(static_cast<v1::Interpolation>(9));
  const absl::Status status = Normalize(spec);
  EXPECT_EQ(ErrorPath(status), "batch.last");
  EXPECT_THAT(std::string(status.message()), HasSubstr("\nstages[0].resize.interpolation: "));
}

TEST(NormalizeTest, TellsAllProblemsAtOnce) {
  v1::PipelineSpec spec;
  EXPECT_THAT(std::string(Normalize(spec).message()),
              testing::AllOf(HasSubstr("source: is required"), HasSubstr("\nbatch.size: ")));
}

TEST(NormalizeTest, RefusesAPatternOverAnyNumberOfFolders) {
  const auto problem_of = [](const std::string& pattern) {
    auto spec = FolderSpec("");
    spec.mutable_source()->mutable_tfrecord()->add_files(pattern);
    return std::string(Normalize(spec).message());
  };
  for (const char* pattern : {"**", "**/a.tfrecord", "/data/**/*.tfrecord", "data/**"}) {
    EXPECT_THAT(problem_of(pattern), HasSubstr("files[0]: has `**`, which is not supported: name "
                                               "each level of folders with *"))
        << pattern;
  }
  EXPECT_THAT(problem_of("/data/*/a**.tfrecord"), Not(HasSubstr("`**`")));
}

TEST(NormalizeTest, RefusesUrlsThatNobodyReads) {
  auto spec = FolderSpec("");
  spec.mutable_source()->mutable_image_folder()->set_path("az://container/photos");
  EXPECT_THAT(std::string(Normalize(spec).message()),
              HasSubstr("source.image_folder.path: az://container/photos is neither a path nor a "
                        "URL that is known here; URLs begin with s3://"));
  spec.mutable_source()->mutable_tfrecord()->add_files("s3:/bucket/x-*");
  EXPECT_THAT(std::string(Normalize(spec).message()),
              HasSubstr("source.tfrecord.files[0]: s3:/bucket/x-* is neither"));
  spec.mutable_source()->mutable_tfrecord()->set_files(0, "./s3:/bucket/x-*");
  EXPECT_THAT(std::string(Normalize(spec).message()), Not(HasSubstr("neither")));
}

// Links and folders of a long one would be followed for minutes.
TEST(NormalizeTest, RefusesPathsThatNoFileCanHave) {
  auto spec = FolderSpec("");
  std::string path = "/data";
  while (path.size() < 4095) path += "/a";
  path.resize(4095, 'a');
  spec.mutable_source()->mutable_image_folder()->set_path(path);
  EXPECT_THAT(std::string(Normalize(spec).message()), Not(HasSubstr("bytes; a path")));
  spec.mutable_source()->mutable_image_folder()->set_path(path + "a");
  EXPECT_THAT(std::string(Normalize(spec).message()),
              HasSubstr("source.image_folder.path: has 4096 bytes; a path has at most 4095"));
}

}  // namespace
}  // namespace bulkhead
