#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/image/boxes/mosaic.h"
#include "server/spec/signature.h"
#include "server/stages/mosaic/declare.h"
#include "server/stages/running/common_options.h"
#include "server/stages/running/families.h"
#include "server/stages/running/sample_stage.h"

namespace bulkhead {
namespace {

constexpr const char* kTileNames[kMosaicTiles] = {"top left", "top right", "bottom left",
                                                  "bottom right"};

size_t RoundedUp(size_t bytes) { return (bytes + 63) / 64 * 64; }
// `mosaic`: the sample and three others in one image, with the rows of all four. Its values are
// those of MosaicFeatures. Images are put into the result one after the other, so that at most one
// is held beside it.
//
// Draws, which are part of the data format: NextUnit() against the probability; then, for a mosaic,
// NextBelow(positions) for the top right, the bottom left and the bottom right image, then
// NextUniform(center) × height and NextUniform(center) × width, truncated, for the point where they
// meet. Sample errors: ROWS_DIFFER, if a feature of `with` does not have a row for each box of its
// sample (checked if the image has one feature of boxes); IMAGE_SIZES_DIFFER, for a mask of another
// size than its image.
class MosaicStage : public SampleStage {
 public:
  MosaicStage(const StageSite& site, const v1::Mosaic& spec)
      : SampleStage(site.place),
        size_(SizeOf(spec)),
        fill_(FillOf(spec)),
        low_(spec.center(0)),
        high_(spec.center(1)),
        probability_(spec.probability()) {
    const std::vector<std::string> names = MosaicFeatures(spec, site.before);
    int box_features = 0;
    for (size_t i = 1; i < names.size(); ++i) {
      Part part = PartOf(site.InputNamed(names[i]));
      part.offset = memory_bytes_;
      memory_bytes_ +=
          RoundedUp(part.kind == Part::Kind::kMask
                        ? static_cast<size_t>(size_.height) * size_.width * part.channels
                        : kMosaicTiles * part.max_bytes);
      if (part.kind == Part::Kind::kBoxes) {
        part.visible_offset = memory_bytes_;
        memory_bytes_ += RoundedUp(kMosaicTiles * part.max_bytes / kBoxNumbers);
        boxes_ = static_cast<int>(parts_.size());
        ++box_features;
      }
      parts_.push_back(std::move(part));
    }
    if (box_features > 1) boxes_ = -1;
    first_with_ = parts_.size() - static_cast<size_t>(spec.with_size());
    for (int i = 0; i < kMosaicTiles; ++i) {
      names_[i] = absl::StrCat(place().Label(), ": its ", kTileNames[i], " image");
    }
  }

  absl::Status RunOn(const StageValues& values, const StageContext& context) const override {
    BULKHEAD_RETURN_IF_ERROR(place().Name(Check(values)));
    auto* row_count =
        reinterpret_cast<size_t*>(context.scratch.row.Resize(parts_.size() * sizeof(size_t)));
    std::fill(row_count, row_count + parts_.size(), size_t{0});
    const Draft draft = {ResultImage(size_, values[0].channels, context),
                         context.scratch.resized.Resize(memory_bytes_), row_count};
    const Draws draws =
        Draw(context.key, context.partners == nullptr ? 0 : context.partners->positions);
    if (draws.mosaic) {
      BULKHEAD_RETURN_IF_ERROR(AddFour(values, context, draws, draft));
    } else {
      Add(values, TileAlone(values[0].image_size, size_), draft);
    }
    Take(draft, values);
    return absl::OkStatus();
  }

  Effect effect() const override { return Effect::kWritesFirst; }
  void ListPartners(const SampleKey& key, uint64_t positions,
                    absl::FunctionRef<void(uint64_t)> take) const override {
    const Draws draws = Draw(key, positions);
    for (int i = 1; draws.mosaic && i < kMosaicTiles; ++i) take(draws.positions[i]);
  }

 private:
  // A value other than the first, and the place of its result in the stage's memory.
  struct Part {
    enum class Kind { kMask, kBoxes, kPoints, kRows };
    Kind kind = Kind::kRows;
    std::string name;
    BoxCoding coding;        // kBoxes, kPoints
    PixelFill fill;          // kMask
    int channels = 0;        // kMask
    int64_t fixed_rows = 0;  // of each sample, where their number is fixed; 0: it varies
    size_t row_bytes = 0;
    size_t max_bytes = 0;       // of one sample's rows
    size_t offset = 0;          // of the rows of all four, or of the mask
    size_t visible_offset = 0;  // kBoxes
  };
  // The rows joined so far, in the thread's memory.
  struct Draft {
    MutableImageView canvas;
    uint8_t* memory;    // of all parts
    size_t* row_count;  // by part

    MutableImageView MaskOf(const Part& part) const {
      return ContiguousImage(memory + part.offset, canvas.size(), part.channels);
    }
  };

  // The draws of a sample's key, in an epoch of `positions`; 0: only whether it is a mosaic.
  struct Draws {
    bool mosaic = false;
    std::array<uint64_t, kMosaicTiles> positions = {};  // of the others, from 1 on
    int y = 0;
    int x = 0;
  };
  Draws Draw(const SampleKey& key, uint64_t positions) const {
    SampleRandom random = place().Random(key);
    Draws draws;
    draws.mosaic = random.NextUnit() < probability_;
    if (!draws.mosaic || positions == 0) return draws;
    for (int i = 1; i < kMosaicTiles; ++i) draws.positions[i] = random.NextBelow(positions);
    const auto meeting = [&](int extent) {
      return std::min(static_cast<int>(random.NextUniform(low_, high_) * extent), extent);
    };
    draws.y = meeting(size_.height);
    draws.x = meeting(size_.width);
    return draws;
  }

  static Part PartOf(const FeatureSignature& feature) {
    Part part;
    part.name = feature.name;
    if (feature.annotation.has_value()) {
      const Annotation& annotation = *feature.annotation;
      part.coding = CodingOf(annotation);
      switch (annotation.kind) {
        case Annotation::Kind::kMask:
          part.kind = Part::Kind::kMask;
          part.fill = {static_cast<uint8_t>(annotation.fill)};
          part.channels = static_cast<int>(feature.shape.back());
          return part;
        case Annotation::Kind::kBoxes:
          part.kind = Part::Kind::kBoxes;
          break;
        case Annotation::Kind::kKeypoints:
          part.kind = Part::Kind::kPoints;
          break;
      }
    }
    part.row_bytes = ElementBytes(feature.dtype);
    for (size_t i = 1; i < feature.shape.size(); ++i) part.row_bytes *= feature.shape[i];
    part.max_bytes = part.row_bytes * feature.shape[0];
    if (!feature.variable) part.fixed_rows = feature.shape[0];
    return part;
  }

  // Checks that one sample's values match and that there is room for them.
  absl::Status Check(const StageValues& values) const {
    const ImageSize image = values[0].image_size;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const Value& value = values[i + 1];
      if (part.kind == Part::Kind::kMask) {
        if (value.image_size == image) continue;
        return SampleError(
            reason::kImageSizesDiffer,
            absl::StrCat("the mask `", part.name, "` has ", value.image_size.height, " x ",
                         value.image_size.width, " pixels (height x width), but its image ",
                         image.height, " x ", image.width));
      }
      const size_t rows = RowsOf(part, value);
      if (rows * part.row_bytes != value.size_bytes || value.size_bytes > part.max_bytes) {
        return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                         absl::StrCat("`", part.name, "` has ", value.size_bytes, " bytes in ",
                                      rows, " rows of ", part.row_bytes, "; please report this"));
      }
      if (i < first_with_ || boxes_ < 0) continue;
      const size_t boxes = RowsOf(parts_[boxes_], values[boxes_ + 1]);
      if (rows == boxes) continue;
      return SampleError(reason::kRowsDiffer,
                         absl::StrCat("there are ", boxes, " boxes, but `", part.name, "` has ",
                                      rows, " rows; it must have one for each box"));
    }
    return absl::OkStatus();
  }

  // Adds one sample's values.
  void Add(const StageValues& values, const MosaicTile& tile, const Draft& draft) const {
    const ImageSize image = values[0].image_size;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const Value& value = values[i + 1];
      if (part.kind == Part::Kind::kMask) {
        DrawTile(value.pixels, tile, part.fill, draft.MaskOf(part));
      } else {
        AddRows(part, value, image, tile, draft, draft.row_count[i]);
      }
    }
    DrawTile(values[0].pixels, tile, fill_, draft.canvas);
  }

  void AddRows(const Part& part, const Value& value, ImageSize image, const MosaicTile& tile,
               const Draft& draft, size_t& row_count) const {
    const size_t rows = RowsOf(part, value);
    auto* out =
        reinterpret_cast<std::byte*>(draft.memory + part.offset) + row_count * part.row_bytes;
    if (part.kind == Part::Kind::kBoxes) {
      MoveBoxesIntoTile(image, tile, size_, part.coding, value.data, value.visible, rows, out,
                        reinterpret_cast<float*>(draft.memory + part.visible_offset) + row_count);
    } else if (part.kind == Part::Kind::kPoints) {
      // A row may hold several.
      MovePointsIntoTile(image, tile, size_, part.coding.relative, value.data,
                         value.size_bytes / (2 * sizeof(float)), out);
    } else if (rows > 0) {
      std::memcpy(out, value.data, value.size_bytes);
    }
    row_count += rows;
  }

  static size_t RowsOf(const Part& part, const Value& value) {
    return static_cast<size_t>(part.fixed_rows > 0 ? part.fixed_rows : value.count);
  }

  absl::Status AddFour(const StageValues& values, const StageContext& context, const Draws& draws,
                       const Draft& draft) const {
    if (context.partners == nullptr) {
      return place().Name(
          MakeError(absl::StatusCode::kInternal, reason::kInternal,
                    "a mosaic is made of a stream's samples, but there is no stream; "
                    "please report this"));
    }
    const auto tile_at = [&](int i) {
      return TileAt(i, draws.y, draws.x, values[0].image_size, size_);
    };
    Add(values, tile_at(0), draft);
    for (int i = 1; i < kMosaicTiles; ++i) {
      const absl::Status made = context.partners->make(draws.positions[i], names_[i], [&] {
        BULKHEAD_RETURN_IF_ERROR(place().Name(Check(values)));
        Add(values, tile_at(i), draft);
        return absl::OkStatus();
      });
      if (!made.ok()) return Annotate(made, names_[i]);
    }
    return absl::OkStatus();
  }

  // Sets the values to the joined ones.
  void Take(const Draft& draft, const StageValues& values) const {
    values[0].SetPixels(draft.canvas);
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      Value& value = values[i + 1];
      value.canvas = size_;
      if (part.kind == Part::Kind::kMask) {
        value.SetPixels(draft.MaskOf(part));
        continue;
      }
      value.data = reinterpret_cast<const std::byte*>(draft.memory + part.offset);
      value.size_bytes = draft.row_count[i] * part.row_bytes;
      value.count = static_cast<int64_t>(draft.row_count[i]);
      if (part.kind == Part::Kind::kBoxes) {
        value.visible = reinterpret_cast<float*>(draft.memory + part.visible_offset);
      }
    }
  }

  ImageSize size_;
  PixelFill fill_;
  double low_;
  double high_;
  double probability_;
  std::vector<Part> parts_;
  size_t first_with_;  // number in parts_ of the first of `with`
  int boxes_ = -1;     // number in parts_ of the image's boxes, if it has one such feature
  size_t memory_bytes_ = 0;
  std::array<std::string, kMosaicTiles> names_;  // "stages[2] mosaic: its top right image"
};

}  // namespace

std::vector<NumberedMaker> MosaicStages() {
  return {{v1::Stage::kMosaic, Make<MosaicStage, &v1::Stage::mosaic>}};
}

}  // namespace bulkhead
