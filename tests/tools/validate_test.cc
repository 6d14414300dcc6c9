#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/support/test_dir.h"
#include "tools/common/command_line.h"
#include "tools/common/commands.h"
#include "tools/validate/spec_report.h"

namespace bulkhead::tools {
namespace {

using ::testing::HasSubstr;

v1::SelectionCounts Counted(uint64_t records, uint64_t in_part, uint64_t kept, uint64_t samples) {
  v1::SelectionCounts counts;
  counts.set_records(records);
  counts.set_in_part(in_part);
  counts.set_kept(kept);
  counts.set_samples(samples);
  return counts;
}

class ValidateTest : public ::testing::Test {
 protected:
  ValidateTest() { std::filesystem::create_directory(folder_ / "p"); }

  std::string Write(const std::string& name, const std::string& text) {
    return dir_.Write(name, text);
  }
  int Run(const std::vector<std::string>& files, bool json = false) {
    return ValidateFiles(files, json, look_, out_, err_);
  }

  static constexpr char kGood[] =
      "source: {image_folder: {path: p}}\nbatch: {size: 4}\norder: global\n"
      "stages: [decode_image, random_resized_crop: {size: 8}]\n";

  DataLook look_;
  const TestDir dir_;
  const std::filesystem::path folder_ = dir_.path();
  std::ostringstream out_;
  std::ostringstream err_;
};

TEST_F(ValidateTest, ShowsTheClassesOfTheDataSoThatAMistypedOneIsSeen) {
  std::map<std::string, uint64_t> classes = {{"Cat", 40}, {"Cat 1", 1}, {"Dog", 39}};
  look_.count = [&](const v1::PipelineSpec&, const std::string&) {
    return DataCounts{Counted(80, 80, 80, 80), {}, "", {{"label", classes}}};
  };
  const std::string file = Write("a.yaml", kGood);
  EXPECT_EQ(Run({file}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\n  classes of label: 3 (40 Cat, 1 Cat 1, 39 Dog)\n"));
  out_.str("");
  EXPECT_EQ(Run({file}, true), 0);
  EXPECT_THAT(out_.str(), HasSubstr("\"Cat 1\": 1,"));
  for (int i = 0; i < 100; ++i) classes[absl::StrCat("c", i)] = 50;
  out_.str("");
  EXPECT_EQ(Run({file}), 0);
  EXPECT_THAT(out_.str(),
              HasSubstr("classes of label: 103 (the rarest: 1 Cat 1, 39 Dog, 40 Cat, 50 c0,"));
  EXPECT_THAT(out_.str(), testing::Not(HasSubstr("c99")));
}

TEST_F(ValidateTest, CountsWhatIsSelectedWhenItMayLookAtTheData) {
  const std::string file =
      Write("sub.yaml",
            "source: {range: {size: 1000}}\nbatch: {size: 4}\nskip: 10\ntake: 400\n"
            "split: {parts: {a: 0.9, b: 0.1}, use: a}\nfilter: {feature: index, min: 5}\n");
  EXPECT_EQ(Run({file}), 0);
  EXPECT_THAT(out_.str(), testing::Not(HasSubstr("samples an epoch")));
  std::string base_dir;
  look_.count = [&](const v1::PipelineSpec& spec, const std::string& folder) {
    EXPECT_EQ(spec.skip(), 10);
    base_dir = folder;
    return DataCounts{Counted(1000, 900, 450, 400), {}};
  };
  EXPECT_EQ(Run({file}), 0);
  EXPECT_EQ(base_dir, folder_.string());
  EXPECT_THAT(out_.str(), HasSubstr("  samples an epoch: 400 of 1000 records: 900 in the part `a`, "
                                    "450 that the filter keeps, 10 skipped, at most 400 taken\n"));
  out_.str("");
  EXPECT_EQ(Run({file}, true), 0);
  EXPECT_THAT(out_.str(),
              AllOf(HasSubstr("\"records_kept\": 450"), HasSubstr("\"samples_per_epoch\": 400")));
  look_.count = [](const v1::PipelineSpec&, const std::string&) {
    return absl::StatusOr<DataCounts>(absl::NotFoundError("no file matches"));
  };
  EXPECT_EQ(Run({file}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("no file matches"));
}

TEST_F(ValidateTest, SaysWhatIsLeftOfEachSelectiveSourceOfAMixture) {
  const std::string file = Write("mixed.yaml",
                                 "source: {mixture: {sources: [\n"
                                 "  {source: {range: {size: 50}}, weight: 1},\n"
                                 "  {source: {range: {size: 100}}, weight: 1, skip: 90},\n"
                                 "  {source: {range: {size: 100}}, weight: 1, take: 20}]}}\n"
                                 "batch: {size: 4}\n");
  look_.count = [](const v1::PipelineSpec&, const std::string&) {
    return DataCounts{Counted(0, 0, 0, 60),
                      {Counted(100, 100, 100, 10), Counted(100, 100, 100, 20)}};
  };
  EXPECT_EQ(Run({file}), 0) << err_.str();
  EXPECT_THAT(out_.str(),
              HasSubstr("  samples an epoch: 60\n"
                        "  source.mixture.sources[1]: 10 of 100 records: 90 skipped\n"
                        "  source.mixture.sources[2]: 20 of 100 records: at most 20 taken\n"));
  out_.str("");
  EXPECT_EQ(Run({file}, true), 0);
  EXPECT_THAT(out_.str(), AllOf(HasSubstr("\"samples_per_epoch\": 10"),
                                HasSubstr("\"samples_per_epoch\": 60")));
}

TEST_F(ValidateTest, WarnsOfDataThatAreNotThere) {
  const std::string file =
      Write("gone.yaml",
            "source: {tfrecord: {files: [a.tfrecord, 'b*']}}\nbatch: {size: 4}\nfeatures: "
            "{label: int64}\n");
  EXPECT_EQ(Run({file}), 0);
  EXPECT_EQ(err_.str(),
            file + ": warning: source.tfrecord.files: a.tfrecord does not exist on this machine\n");
}

TEST_F(ValidateTest, ABatchThatNoEpochFillsIsAnError) {
  const std::string file =
      Write("large.yaml", "source: {range: {size: 9}}\nbatch: {size: 10, last: drop}\n");
  look_.count = [](const v1::PipelineSpec&, const std::string&) {
    return DataCounts{Counted(0, 0, 0, 9), {}};
  };
  EXPECT_EQ(Run({file}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("an epoch of 9 samples does not fill one batch of 10"));
}

TEST_F(ValidateTest, WarnsOfWhatNoMachineHolds) {
  const std::string file =
      Write("large.yaml",
            "source: {image_folder: {path: p}}\nbatch: {size: 200000}\norder: global\n"
            "stages: [decode_image, resize: {size: 1000}]\noutputs: [image]\n");
  EXPECT_EQ(Run({file}), 0);
  EXPECT_THAT(err_.str(),
              testing::AllOf(HasSubstr("large.yaml: warning: batch.size: the arena takes "),
                             HasSubstr("(558.8 GiB) = "), HasSubstr("this machine has ")));
}

TEST_F(ValidateTest, PrintsWhatABatchHolds) {
  const std::string file = Write("good.yaml", kGood);
  EXPECT_EQ(Run({file}), 0);
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(out_.str(), file +
                            ": valid\n"
                            "  output  dtype       shape      bytes a batch\n"
                            "  image   uint8       [4,8,8,3]            768\n"
                            "  label   int64       [4]                   32\n"
                            "  path    bytes<=256  [4]                 1024\n"
                            "  batch: 1856 bytes (1.8 KiB)\n"
                            "  arena: 5 slots, 20480 bytes (20.0 KiB)\n"
                            "  one sample in a worker: at most 324000648 bytes (309.0 MiB)\n"
                            "  random stages: stages[1].random_resized_crop\n");
}

TEST_F(ValidateTest, ProblemsGoToErrWithTheirPlace) {
  const std::string good = Write("good.yaml", kGood);
  const std::string bad = Write("bad.yaml", "sorce: 1\nbatch: {size: x}\n");
  EXPECT_EQ(Run({bad, good}), 1);
  EXPECT_EQ(err_.str(), bad + ":1:1: sorce: unknown field `sorce`; did you mean `source`?\n" + bad +
                            ":2:15: batch.size: must be a whole number, but is `x`\n");
  EXPECT_THAT(out_.str(), HasSubstr("good.yaml: valid"));
}

TEST_F(ValidateTest, FilesThatCannotBeReadAreErrors) {
  EXPECT_EQ(Run({(folder_ / "missing.yaml").string()}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("missing.yaml: cannot be opened"));
  EXPECT_EQ(Run({folder_.string()}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("cannot be read; is it a file?"));
}

TEST_F(ValidateTest, JsonIsForPrograms) {
  EXPECT_EQ(Run({Write("good.yaml", kGood), Write("bad.yaml", "sorce: 1\n")}, true), 1);
  google::protobuf::ListValue list;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(out_.str(), &list).ok()) << out_.str();
  ASSERT_EQ(list.values_size(), 2);
  const auto& good = list.values(0).struct_value().fields();
  EXPECT_TRUE(good.at("valid").bool_value());
  EXPECT_EQ(good.at("batch_bytes").number_value(), 1856);
  EXPECT_EQ(good.at("outputs").list_value().values_size(), 3);
  EXPECT_EQ(good.at("random_stages").list_value().values(0).string_value(),
            "stages[1].random_resized_crop");
  const auto& bad = list.values(1).struct_value().fields();
  EXPECT_FALSE(bad.at("valid").bool_value());
  EXPECT_EQ(bad.at("reason").string_value(), "SPEC_INVALID");
  EXPECT_THAT(bad.at("problems").list_value().values(0).string_value(), HasSubstr(":1:1: sorce"));
}

// What is said of a cache stage behind `stages` when samples take `kept` bytes and are made of
// `read`; without a look at the data when both are 0.
class ValidateCacheTest : public ValidateTest {
 protected:
  void RunOn(const std::string& stages, uint64_t kept = 0, uint64_t read = 0) {
    look_ = {};
    if (kept > 0) {
      look_.count = [](const v1::PipelineSpec&, const std::string&) {
        return DataCounts{Counted(0, 0, 0, 20000), {}};
      };
      look_.kept = [=, this](const v1::PipelineSpec&,
                             const std::string&) -> absl::StatusOr<KeptLook> {
        if (kept_.has_value()) return *kept_;
        return KeptLook{64, kept, read};
      };
    }
    out_.str("");
    err_.str("");
    EXPECT_EQ(Run({Write("cache.yaml",
                         "source: {image_folder: {path: p}}\nbatch: {size: 4}\n"
                         "order: global\nstages: [" +
                             stages + ", cache, center_crop: {size: 8}]\n")},
                  json_),
              0);
  }

  std::optional<absl::Status> kept_;  // of a look that fails
  bool json_ = false;
};

TEST_F(ValidateCacheTest, SaysWhatWholePhotosTake) {
  RunOn("decode_image");
  EXPECT_THAT(err_.str(),
              HasSubstr("stages[1].cache keeps whole images, 3 bytes a pixel: 1.5 MB of "
                        "a photo of half a megapixel"));
  RunOn("decode_image: {channels: 1}");
  EXPECT_THAT(err_.str(), HasSubstr("1 bytes a pixel: 0.5 MB"));
}

TEST_F(ValidateCacheTest, SaysWhatTheDataWillTake) {
  RunOn("decode_image", 600 << 10, 100 << 10);
  EXPECT_THAT(err_.str(), HasSubstr("614400 bytes (600.0 KiB) a sample (mean of 64): about "
                                    "12288000000 bytes (11.4 GiB) for 20000 samples, 6.0 times"));
}

TEST_F(ValidateCacheTest, WarnsOfMuchMoreThanIsReadAndToldAnyhow) {
  RunOn("decode_image, resize: {size: 64}", 12288, 12288 / 5);
  EXPECT_THAT(err_.str(), HasSubstr("warning: stages[2].cache keeps 12288 bytes (12.0 KiB)"));
  RunOn("decode_image, resize: {size: 64}", 12288, 12288 / 3);
  EXPECT_EQ(err_.str(), "");
  EXPECT_THAT(out_.str(), HasSubstr("  stages[2].cache keeps 12288 bytes (12.0 KiB) a sample "));
}

TEST_F(ValidateCacheTest, WarnsOfMoreThanAServiceKeeps) {
  RunOn("decode_image, resize: {size: 600}", 1 << 20, 1 << 20);
  EXPECT_THAT(err_.str(), HasSubstr("--stage-cache-bytes (16 GiB by default"));
}

TEST_F(ValidateCacheTest, SaysWhyItCouldNotMeasure) {
  kept_ = absl::NotFoundError("the stage user:f\nis not here");
  RunOn("decode_image", 1, 1);
  const std::string why = " (could not be measured: the stage user:f; is not here)";
  EXPECT_THAT(out_.str(), HasSubstr("photo of half a megapixel" + why + "\n"));
  EXPECT_THAT(err_.str(), HasSubstr("photo of half a megapixel" + why));
  EXPECT_THAT(err_.str(), testing::Not(HasSubstr("validate --data")));
  RunOn("decode_image");
  EXPECT_THAT(err_.str(), HasSubstr("`validate --data` and `bulkhead explain` measure your own"));
  EXPECT_THAT(err_.str(), testing::Not(HasSubstr("could not")));
}

TEST_F(ValidateCacheTest, TheReasonIsInTheJson) {
  kept_ = absl::NotFoundError("it is not here");
  json_ = true;
  RunOn("decode_image", 1, 1);
  EXPECT_THAT(out_.str(), HasSubstr("\"not_measured\": \"it is not here\""));
  kept_.reset();
  RunOn("decode_image", 1, 1);
  EXPECT_THAT(out_.str(), testing::Not(HasSubstr("not_measured")));
}

TEST_F(ValidateCacheTest, WithoutDataWarnsOfLargeSamples) {
  RunOn("decode_image, resize: {size: 64}");
  EXPECT_EQ(err_.str(), "");
  EXPECT_THAT(out_.str(), HasSubstr("stages[2].cache keeps 12288 bytes (12.0 KiB) a sample\n"));
  RunOn("decode_image, resize: {size: 640}");
  EXPECT_THAT(err_.str(), HasSubstr("stages[2].cache keeps 1228800 bytes (1.2 MiB) a sample"));
}

TEST_F(ValidateTest, WarnsOfAShuffleOverCompressedFiles) {
  EXPECT_EQ(Run({Write("a.yaml",
                       "source: {tfrecord: {files: a, compression: gzip}}\nbatch: {size: 1}\n"
                       "features: {x: int64}\norder: global\n")}),
            0);
  EXPECT_THAT(err_.str(), HasSubstr("warning: order: global over compressed files"));
}

TEST_F(ValidateTest, WarnsOfInterleavingWhatDoesNotSuit) {
  const std::string order = "order: {interleave: {cycle_length: 4}}\n";
  EXPECT_EQ(Run({Write("a.yaml",
                       "source: {tfrecord: {files: a, compression: zlib}}\nbatch: {size: 1}\n"
                       "features: {x: int64}\n" +
                           order)}),
            0);
  EXPECT_THAT(err_.str(), HasSubstr("warning: order: interleave over compressed files"));
  EXPECT_EQ(Run({Write("b.yaml", "source: {range: {size: 9}}\nbatch: {size: 1}\n" + order)}), 0);
  EXPECT_THAT(err_.str(), HasSubstr("this source counts as one file"));
}

TEST_F(ValidateTest, TheCommandSetsTheExitCode) {
  const Command validate = ValidateCommand();
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunCommandLine(validate, {Write("bad.yaml", "sorce: 1\n")}), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(":1:1: sorce"));
}

}  // namespace
}  // namespace bulkhead::tools
