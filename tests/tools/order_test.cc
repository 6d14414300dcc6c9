#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/image/codecs/image_decoder.h"
#include "tests/support/test_dir.h"
#include "tools/order/order_command.h"
#include "tools/order/order_survey.h"
#include "tools/order/scatter_plot.h"
#include "tools/synth/dataset.h"

namespace bulkhead::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<SampleOrder> InterleaveTwo(const std::vector<uint64_t>& files) {
  v1::Order order;
  order.mutable_interleave()->set_cycle_length(2);
  order.mutable_interleave()->set_block_length(1);
  return MakeOrder(order, 1, files).value();
}

TEST(OrderSurveyTest, FindsTheLongestRun) {
  const std::vector<uint64_t> files = {2, 3, 5};  // 0 2 1 3 4 5 6 7 8 9
  const OrderSurvey survey = SurveyOrder(*InterleaveTwo(files), 0, 10, files);
  EXPECT_EQ(survey.longest_run, 5);
  EXPECT_EQ(survey.longest_run_file, 2);
  EXPECT_EQ(survey.longest_run_position, 5);
  EXPECT_EQ(SurveyOrder(*InterleaveTwo(files), 0, 4, files).longest_run, 1);
}

TEST(OrderSurveyTest, CorrelatesNeighbours) {
  const std::vector<uint64_t> one = {50};
  EXPECT_NEAR(SurveyOrder(*InterleaveTwo(one), 0, 50, one).serial_correlation, 1, 1e-9);
  EXPECT_TRUE(std::isnan(SurveyOrder(*InterleaveTwo(one), 0, 1, one).serial_correlation));
}

TEST(PickPositionsTest, TakesOneOutOfEachStretch) {
  EXPECT_THAT(PickPositions(3, 5), ElementsAre(0, 1, 2));
  const auto picked = PickPositions(1000, 100);
  ASSERT_EQ(picked.size(), 100);
  std::set<uint64_t> within;
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(picked[i] / 10, i);
    within.insert(picked[i] % 10);
  }
  EXPECT_EQ(within.size(), 10) << "no rhythm";
  EXPECT_EQ(PickPositions(1001, 100).back() / 11, 90);
}

TEST(TicksTest, AreRoundNumbers) {
  EXPECT_THAT(Ticks(0, 9999, 8), ElementsAre(0, 2000, 4000, 6000, 8000));
  EXPECT_THAT(Ticks(7, 7, 8), ElementsAre(7));
  EXPECT_EQ(TickLabel(2000), "2000");
  EXPECT_EQ(TickLabel(15000), "15k");
  EXPECT_EQ(TickLabel(2.5e6), "2.5M");
  EXPECT_EQ(TickLabel(-0.25), "-0.25");
}

class OrderCommandTest : public testing::Test {
 protected:
  // 10,000 records `var` in five files, and a spec with `order`.
  std::string RangeSpec(const std::string& order) {
    SynthOptions options;
    options.out = (dir_.path() / "numbers").string();
    options.schema = SynthSchema::kRange;
    options.force = true;
    EXPECT_TRUE(WriteDataset(options, [](uint64_t, uint64_t) {}).ok());
    return dir_.Write("numbers/spec.yaml",
                      absl::StrCat("source: {tfrecord: {files: \"part-*.tfrecord\"}}\n"
                                   "features: {var: {int64: {}}}\nbatch: {size: 1}\norder: ",
                                   order, "\n"));
  }

  google::protobuf::Struct Run(OrderOptions options) {
    options.json = true;
    std::ostringstream out;
    const absl::Status status = RunOrder(options, out);
    EXPECT_TRUE(status.ok()) << status;
    google::protobuf::Struct json;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(out.str(), &json).ok()) << out.str();
    return json;
  }

  static std::string ReasonOf(const OrderOptions& options) {
    std::ostringstream out;
    const auto info = GetErrorInfo(RunOrder(options, out));
    return info.has_value() ? info->reason : "none";
  }

  TestDir dir_;
};

TEST_F(OrderCommandTest, CountsTheRecordsOfFiles) {
  OrderOptions options;
  options.spec = RangeSpec("{interleave: {cycle_length: 4}}");
  const auto json = Run(options);
  const auto& fields = json.fields();
  EXPECT_EQ(fields.at("records").number_value(), 10000);
  EXPECT_EQ(fields.at("files").number_value(), 5);
  EXPECT_EQ(fields.at("order").string_value(), "interleave {cycle_length: 4, block_length: 1}");
  // Four files take turns and end together; the fifth is left alone.
  const auto& run = fields.at("longest_run").struct_value().fields();
  EXPECT_EQ(run.at("records").number_value(), 2000);
  EXPECT_EQ(run.at("first_position").number_value(), 8000);
  EXPECT_EQ(run.at("file").string_value(), "part-4.tfrecord");
}

TEST_F(OrderCommandTest, RangesNeedNoFile) {
  OrderOptions options;
  options.spec = dir_.Write("r.yaml", "source: {range: {size: 90}}\nbatch: {size: 1}\n");
  options.max_positions = 40;
  const auto json = Run(options);
  EXPECT_EQ(json.fields().at("records").number_value(), 90);
  EXPECT_EQ(json.fields().at("positions_examined").number_value(), 40);
  EXPECT_NEAR(json.fields().at("serial_correlation").number_value(), 1, 1e-5);
}

TEST_F(OrderCommandTest, InlineListsAreIndexed) {
  OrderOptions options;
  options.spec = dir_.Write("l.yaml",
                            "source: {image_list: {entries: [\"a.jpg 1\", \"b.jpg 2\"]}}\n"
                            "outputs: [label]\nbatch: {size: 1}\n");
  dir_.Write("a.jpg", "x");
  dir_.Write("b.jpg", "x");
  EXPECT_EQ(Run(options).fields().at("records").number_value(), 2);
}

// Of each column of a picture that has dots, the lowest one's row.
std::map<int, int> DotsByColumn(const std::string& png) {
  ImageDecoder decoder;
  Image image;
  const auto size = decoder.Open(png, 10'000'000);
  if (!size.ok()) {
    ADD_FAILURE() << size.status();
    return {};
  }
  const ImageView view = decoder.Decode(PixelFormat::kRgb, WholeImage(*size), image).value();
  std::map<int, int> rows;
  for (int y = 0; y < view.height; ++y) {
    for (int x = 0; x < view.width; ++x) {
      const uint8_t* pixel = view.row(y) + x * 3;
      if (pixel[2] > pixel[0] + 60) rows[x] = y;  // blue
    }
  }
  return rows;
}

TEST_F(OrderCommandTest, DrawsFeaturesLikeRecordsWhereTheyAreTheSame) {
  OrderOptions options;
  options.spec = RangeSpec("{block: {block_size: 50, window: 2}}");
  options.png = (dir_.path() / "a.png").string();
  Run(options);
  const auto records = DotsByColumn(ReadFile(options.png));
  EXPECT_GT(records.size(), 900) << "dots all along the axis";
  options.feature = "var";
  Run(options);
  EXPECT_EQ(DotsByColumn(ReadFile(options.png)), records);
  options.epoch = 1;
  Run(options);
  EXPECT_NE(DotsByColumn(ReadFile(options.png)), records);
}

TEST_F(OrderCommandTest, MixturesCountThroughAllTheirSources) {
  RangeSpec("global");  // the data
  OrderOptions options;
  options.spec = dir_.Write(
      "numbers/mixture.yaml",
      "source:\n  mixture:\n    sources:\n"
      "      - weight: 0.5\n        source: {tfrecord: {files: \"part-[01].tfrecord\"}}\n"
      "        features: {var: int64}\n"
      "      - weight: 1.5\n        source: {tfrecord: {files: \"part-[234].tfrecord\"}}\n"
      "        features: {var: int64}\n        order: global\n"
      "batch: {size: 1}\n");
  const auto json = Run(options);
  EXPECT_EQ(json.fields().at("records").number_value(), 10000);
  EXPECT_EQ(json.fields().at("files").number_value(), 5);
  EXPECT_EQ(json.fields().at("samples_per_epoch").number_value(), 8000);
  EXPECT_EQ(json.fields().at("positions_examined").number_value(), 8000);
  EXPECT_EQ(json.fields().at("order").string_value(),
            "0.5 of sequential {} + 1.5 of global {reshuffle: true}");
  // `var` counts through all files, so that a feature's picture is that of the records.
  options.png = (dir_.path() / "a.png").string();
  Run(options);
  const auto records = DotsByColumn(ReadFile(options.png));
  EXPECT_GT(records.size(), 900);
  options.feature = "var";
  Run(options);
  EXPECT_EQ(DotsByColumn(ReadFile(options.png)), records);
  options.feature = "source_id";
  Run(options);
  EXPECT_NE(DotsByColumn(ReadFile(options.png)), records);
}

TEST_F(OrderCommandTest, ASequentialOrderIsALineUpwards) {
  OrderOptions options;
  options.spec = RangeSpec("sequential");
  options.png = (dir_.path() / "a.png").string();
  Run(options);
  int last = 10000;
  for (const auto& [x, y] : DotsByColumn(ReadFile(options.png))) {
    EXPECT_LE(y, last) << x;
    last = y;
  }
  EXPECT_LT(last, 120);
}

TEST_F(OrderCommandTest, SaysWhatIsWrong) {
  OrderOptions options;
  options.spec = (dir_.path() / "missing.yaml").string();
  EXPECT_EQ(ReasonOf(options), reason::kFileUnreadable);
  options.spec = dir_.Write("a.yaml",
                            "source: {tfrecord: {files: none-*}}\nfeatures: {x: int64}\n"
                            "batch: {size: 1}\n");
  EXPECT_EQ(ReasonOf(options), reason::kFileNotFound);
  options.spec = RangeSpec("global");
  options.png = (dir_.path() / "no-folder" / "a.png").string();
  EXPECT_EQ(ReasonOf(options), reason::kFileUnreadable);
  options.png = (dir_.path() / "a.png").string();
  options.feature = "other";
  EXPECT_EQ(ReasonOf(options), reason::kSpecInvalid);
}

TEST_F(OrderCommandTest, LeavesNoIndexBehind) {
  const auto before = std::getenv("TMPDIR") == nullptr ? "" : std::string(std::getenv("TMPDIR"));
  setenv("TMPDIR", dir_.path().c_str(), 1);
  OrderOptions options;
  options.spec = RangeSpec("global");
  Run(options);
  before.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before.c_str(), 1);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    EXPECT_EQ(entry.path().filename(), "numbers");
  }
}

}  // namespace
}  // namespace bulkhead::tools
