// Boxes, points and masks against torchvision's transforms v2 (make_golden_v2.py), moved by stages
// where ranges of one number leave nothing to chance. torchvision computes in float32, we in double
// with a rounding at the end: numbers differ by what float32 loses on the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "server/image/boxes/boxes.h"
#include "server/image/boxes/move_mask.h"
#include "tests/golden/golden_pipeline.h"

namespace bulkhead::golden_v2_boxes_test {
namespace {

constexpr ImageSize kCanvas{43, 57};
constexpr double kRounding = 2e-5;  // pixels, of coordinates below 100

constexpr char kFeatures[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "image" value { bytes {} } }
  features { key: "mask" value { bytes {} } }
  features { key: "boxes" value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 4] max_count: 64 } } }
  features { key: "points" value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 2] max_count: 64 } } }
  features { key: "labels" value { int64 { shape: [-1] max_count: 64 } } }
  batch { size: 4 }
)";

// The moves that stages can be made to do.
const std::vector<std::pair<std::string, std::string>> kStages = {
    {"flip columns", "random_horizontal_flip { probability: 1 }"},
    {"flip rows", "random_vertical_flip { probability: 1 }"},
    {"center crop", "center_crop { size: [29, 31] }"},
    {"pad", "pad { padding: [1, 2, 3, 4] }"},
    {"enlarge", "resize { size: [60, 100] }"},
    {"shrink", "resize { size: [20, 33] }"},
    {"affine", "random_affine { degrees: [30, 30] scale: [0.8, 0.8] shear: [10, 10, -5, -5] }"},
};

// Those of which a stage draws more than one number.
std::vector<std::pair<std::string, WarpMap>> Warps() {
  const Corners corners = {{{4, 2}, {50, 0}, {55, 40}, {1, 37}}};
  return {{"shifted", AffineMap(kCanvas, {-17.0, 5, -3, 1.25, 0, 0})},
          {"rotate", RotationMap(kCanvas, 20)},
          {"perspective", PerspectiveMap(kCanvas, corners).value()}};
}

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

class GoldenV2BoxesTest : public GoldenPipelineTest {
 protected:
  GoldenV2BoxesTest() : GoldenPipelineTest("v2.golden") {}

  // A pipeline over one record: the picture, which is its own mask, the boxes called `boxes`, each
  // with its number as its label, and the points.
  PipelineUnderTest PipelineOver(const std::string& file, const std::string& boxes,
                                 const std::string& stages) const {
    FakeRecord record;
    record.features["image"] = {file};
    record.features["mask"] = {file};
    record.features["boxes"] = {Get(boxes).bytes, Get(boxes).shape[0]};
    record.features["points"] = {Get("points").bytes, Get("points").shape[0]};
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < Get(boxes).shape[0]; ++i) labels.push_back(i);
    record.features["labels"] = {BytesOf(labels), Get(boxes).shape[0]};
    return PipelineUnderTest(MakeSpec(In("decode_image { color: COLOR_GRAY }") + stages, kFeatures),
                             {std::move(record)});
  }

  // What `stages` make of the output `name`, which is as long as `golden`, or longer.
  std::string Made(const std::string& boxes, const std::string& stages, const std::string& name,
                   const GoldenArray& golden) const {
    PipelineUnderTest pipeline =
        PipelineOver(FileOf("mask"), boxes, stages + " outputs: '" + name + "'");
    const Produced produced = pipeline.Produce(0, {3, 1, 0});
    EXPECT_TRUE(produced.status.ok()) << produced.status;
    if (!produced.status.ok()) return "";
    return pipeline.Output(produced, name).substr(0, golden.bytes.size());
  }

  static void ExpectNear(const std::string& made, const GoldenArray& golden) {
    const std::vector<float> ours = Floats(made);
    const std::vector<float> theirs = Floats(golden.bytes);
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_NEAR(ours[i], theirs[i], kRounding) << "number " << i;
    }
  }

  // torchvision's points are pixels, which mirror at the last pixel's middle, and it cuts them.
  static void ExpectPointsNear(const std::string& made, const std::string& move,
                               const GoldenArray& golden, ImageSize canvas) {
    const std::vector<float> ours = Floats(made);
    const std::vector<float> theirs = Floats(golden.bytes);
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      const bool across = i % 2 == 0;
      const bool mirrored = move == (across ? "flip columns" : "flip rows");
      const bool scaled = move == "enlarge" || move == "shrink";
      const double last = (across ? canvas.width : canvas.height) - 1;
      const double pixel = mirrored ? ours[i] - 1.0 : ours[i];
      EXPECT_NEAR(scaled ? pixel : std::clamp(pixel, 0.0, last), theirs[i], kRounding)
          << move << " number " << i;
    }
  }
};

TEST_F(GoldenV2BoxesTest, BoxesMoveWithStagesInEveryFormat) {
  for (const std::string format : {"XYXY", "XYWH", "CXCYWH"}) {
    const std::string boxes = "boxes " + format;
    const std::string declared = In("boxes { format: BOX_FORMAT_" + format + " }");
    for (const auto& [move, stage] : kStages) {
      SCOPED_TRACE(boxes + " " + move);
      const GoldenArray& golden = Get(boxes + " " + move);
      EXPECT_FALSE(golden.bytes == Get(boxes).bytes);
      ExpectNear(Made(boxes, declared + In(stage), "boxes", golden), golden);
    }
  }
}

TEST_F(GoldenV2BoxesTest, BoxesMoveWithWarpsInEveryFormat) {
  for (const auto& [name, format] : {std::pair{"XYXY", BoxFormat::kXyxy},
                                     {"XYWH", BoxFormat::kXywh},
                                     {"CXCYWH", BoxFormat::kCxcywh}}) {
    for (const auto& [move, map] : Warps()) {
      SCOPED_TRACE(absl::StrCat(name, " ", move));
      std::string rows = Get(absl::StrCat("boxes ", name)).bytes;
      auto* data = reinterpret_cast<std::byte*>(rows.data());
      MoveBoxes(Geometry::Warp(kCanvas, map), {format, false}, data, rows.size() / kBoxBytes, data,
                nullptr);
      ExpectNear(rows, Get(absl::StrCat("boxes ", name, " ", move)));
    }
  }
}

TEST_F(GoldenV2BoxesTest, PointsMoveButAreMirroredAsPlacesAndNotCut) {
  for (const auto& [move, stage] : kStages) {
    const GoldenArray& golden = Get("points " + move);
    const GoldenArray& mask = Get("mask " + move);
    const ImageSize canvas = {static_cast<int>(mask.shape[0]), static_cast<int>(mask.shape[1])};
    ExpectPointsNear(
        Made("boxes XYXY", In("keypoints { input: 'points' }") + In(stage), "points", golden), move,
        golden, canvas);
  }
  for (const auto& [move, map] : Warps()) {
    std::string rows = Get("points").bytes;
    auto* data = reinterpret_cast<std::byte*>(rows.data());
    MovePoints(Geometry::Warp(kCanvas, map), false, data, rows.size() / 8, data);
    ExpectPointsNear(rows, move, Get("points " + move), kCanvas);
  }
}

// A warped pixel's place is float32 in torchvision: next to an edge it may fall to the other side.
void ExpectMask(const std::string& made, const GoldenArray& golden, bool warped) {
  ASSERT_EQ(made.size(), golden.bytes.size());
  size_t differing = 0;
  for (size_t i = 0; i < made.size(); ++i) differing += made[i] != golden.bytes[i];
  EXPECT_LE(static_cast<double>(differing), warped ? 0.002 * static_cast<double>(made.size()) : 0);
}

TEST_F(GoldenV2BoxesTest, MasksAreExactButAtEdgesOfWarpedPixels) {
  const std::string declared =
      In("decode_image { input: 'mask' color: COLOR_GRAY }") + In("mask { fill: 9 }");
  for (const auto& [move, stage] : kStages) {
    SCOPED_TRACE(move);
    const GoldenArray& golden = Get("mask " + move);
    const std::string filled =
        move == "pad" ? declared
                      : In("decode_image { input: 'mask' color: COLOR_GRAY }") + In("mask {}");
    ExpectMask(Made("boxes XYXY", filled + In(stage) + Whole(golden), "mask", golden), golden,
               move == "affine");
  }
  for (const auto& [move, map] : Warps()) {
    SCOPED_TRACE(move);
    std::string pixels = Get("mask").bytes;
    ScratchBuffer memory;
    ScratchBuffer row;
    const auto moved = MoveMask(
        Geometry::Warp(kCanvas, map), 0,
        ContiguousImage(reinterpret_cast<uint8_t*>(pixels.data()), kCanvas, 1), memory, row);
    ASSERT_TRUE(moved.ok()) << moved.status();
    ExpectMask(PixelsOf(moved->view), Get("mask " + move), true);
  }
}

TEST_F(GoldenV2BoxesTest, SanitizingKeepsTheSameRows) {
  const std::vector<std::pair<std::string, std::string>> bounds = {
      {"plain", "min_size: 1"}, {"size", "min_size: 3"}, {"area", "min_area: 40"}};
  for (const auto& [name, options] : bounds) {
    for (const std::string cut : {"cut", "uncut"}) {
      SCOPED_TRACE(name + " " + cut);
      const GoldenArray& kept = Get("kept " + name + " " + cut);
      ASSERT_GT(kept.shape[0], 2);
      PipelineUnderTest pipeline =
          PipelineOver(FileOf("mask"), "sanitized",
                       In("boxes { format: BOX_FORMAT_XYXY }") +
                           In("sanitize_boxes { with: 'labels' " + options +
                              (cut == "cut" ? " }" : " clamp: false }")) +
                           " outputs: ['boxes', 'labels']");
      const Produced produced = pipeline.Produce(0, {3, 1, 0});
      ASSERT_TRUE(produced.status.ok()) << produced.status;
      const GoldenArray& left = Get("left " + name + " " + cut);
      EXPECT_EQ(pipeline.Output(produced, "boxes_count"), BytesOf<int64_t>({kept.shape[0]}));
      EXPECT_EQ(pipeline.Output(produced, "labels").substr(0, kept.bytes.size()), kept.bytes);
      EXPECT_TRUE(pipeline.Output(produced, "boxes").substr(0, left.bytes.size()) == left.bytes);
    }
  }
}

// The rectangles that are taken, the boxes that are emptied and those that are cut.
TEST_F(GoldenV2BoxesTest, IouCropsAreExact) {
  const std::string file = EncodePng(MakePicture(20, 24, 1).view()).value();
  for (const auto& [scale, overlap] :
       {std::pair{"0.5", "0.0"}, {"0.5", "0.3"}, {"0.75", "0.4"}, {"0.75", "0.6"}}) {
    PipelineUnderTest pipeline =
        PipelineOver(file, "iou boxes",
                     In("boxes { format: BOX_FORMAT_XYXY }") +
                         In(absl::StrCat("random_iou_crop { scale: [", scale, ", ", scale,
                                         "] min_overlap: ", overlap, " }")) +
                         " outputs: 'boxes'");
    ExpectOutcomes(pipeline, "boxes", absl::StrCat("iou ", scale, " ", overlap));
  }
}

TEST_F(GoldenV2BoxesTest, ZoomingOutIsExact) {
  PipelineUnderTest pipeline = PipelineOver(
      EncodePng(MakePicture(20, 24, 1).view()).value(), "iou boxes",
      In("boxes { format: BOX_FORMAT_XYXY }") +
          In("random_zoom_out { side_range: [1.5, 1.5] probability: 1 }") + " outputs: 'boxes'");
  ExpectOutcomes(pipeline, "boxes", "zoomed");
}

}  // namespace
}  // namespace bulkhead::golden_v2_boxes_test
