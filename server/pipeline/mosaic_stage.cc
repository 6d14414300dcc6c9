#include "server/pipeline/mosaic_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/pipeline/follow.h"
#include "server/pipeline/geometry_options.h"
#include "server/pipeline/stage_factory.h"
#include "server/spec/stages/mosaic_kinds.h"

namespace bulkhead {
namespace {

constexpr const char* kTileNames[kMosaicTiles] = {"top left", "top right", "bottom left",
                                                  "bottom right"};

size_t RoundedUp(size_t bytes) { return (bytes + 63) / 64 * 64; }

const FeatureSignature& Named(const std::vector<FeatureSignature>& features,
                              const std::string& name) {
  return *std::find_if(features.begin(), features.end(),
                       [&](const FeatureSignature& feature) { return feature.name == name; });
}

}  // namespace

MosaicStage::MosaicStage(StagePlace place, const v1::Mosaic& spec,
                         const std::vector<FeatureSignature>& before)
    : SampleStage(std::move(place)),
      size_(SizeOf(spec)),
      fill_(FillOf(spec)),
      low_(spec.center(0)),
      high_(spec.center(1)),
      probability_(spec.probability()) {
  const std::vector<std::string> names = MosaicFeatures(spec, before);
  int box_features = 0;
  for (size_t i = 1; i < names.size(); ++i) {
    Part part = PartOf(Named(before, names[i]));
    part.offset = memory_bytes_;
    memory_bytes_ += RoundedUp(part.kind == Part::Kind::kMask
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
    names_[i] = absl::StrCat(this->place().Label(), ": its ", kTileNames[i], " image");
  }
}

MosaicStage::Part MosaicStage::PartOf(const FeatureSignature& feature) {
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

MutableImageView MosaicStage::Draft::MaskOf(const Part& part) const {
  return ContiguousImage(memory + part.offset, canvas.size(), part.channels);
}

size_t MosaicStage::RowsOf(const Part& part, const Value& value) {
  return static_cast<size_t>(part.fixed_rows > 0 ? part.fixed_rows : value.count);
}

absl::Status MosaicStage::Check(const StageValues& values) const {
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
                       absl::StrCat("`", part.name, "` has ", value.size_bytes, " bytes in ", rows,
                                    " rows of ", part.row_bytes, "; please report this"));
    }
    if (i < first_with_ || boxes_ < 0) continue;
    const size_t boxes = RowsOf(parts_[boxes_], values[boxes_ + 1]);
    if (rows == boxes) continue;
    return SampleError(reason::kRowsDiffer,
                       absl::StrCat("there are ", boxes, " boxes, but `", part.name, "` has ", rows,
                                    " rows; it must have one for each box"));
  }
  return absl::OkStatus();
}

void MosaicStage::AddRows(const Part& part, const Value& value, ImageSize image,
                          const MosaicTile& tile, const Draft& draft, size_t& row_count) const {
  const size_t rows = RowsOf(part, value);
  auto* out = reinterpret_cast<std::byte*>(draft.memory + part.offset) + row_count * part.row_bytes;
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

void MosaicStage::Add(const StageValues& values, const MosaicTile& tile, const Draft& draft) const {
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

void MosaicStage::Take(const Draft& draft, const StageValues& values) const {
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

absl::Status MosaicStage::RunOn(const StageValues& values, const StageContext& context) const {
  BULKHEAD_RETURN_IF_ERROR(place().Name(Check(values)));
  auto* row_count =
      reinterpret_cast<size_t*>(context.scratch.row.Resize(parts_.size() * sizeof(size_t)));
  std::fill(row_count, row_count + parts_.size(), size_t{0});
  const Draft draft = {ResultImage(size_, values[0].channels, context),
                       context.scratch.resized.Resize(memory_bytes_), row_count};
  const Draws draws =
      Draw(context.key, context.partners == nullptr ? 0 : context.partners->positions());
  if (draws.mosaic) {
    BULKHEAD_RETURN_IF_ERROR(AddFour(values, context, draws, draft));
  } else {
    Add(values, TileAlone(values[0].image_size, size_), draft);
  }
  Take(draft, values);
  return absl::OkStatus();
}

absl::Status MosaicStage::AddFour(const StageValues& values, const StageContext& context,
                                  const Draws& draws, const Draft& draft) const {
  if (context.partners == nullptr) {
    return place().Name(MakeError(absl::StatusCode::kInternal, reason::kInternal,
                                  "a mosaic is made of a stream's samples, but there is no stream; "
                                  "please report this"));
  }
  const auto tile_at = [&](int i) {
    return TileAt(i, draws.y, draws.x, values[0].image_size, size_);
  };
  Add(values, tile_at(0), draft);
  for (int i = 1; i < kMosaicTiles; ++i) {
    const absl::Status made = context.partners->Make(draws.positions[i], names_[i], [&] {
      BULKHEAD_RETURN_IF_ERROR(place().Name(Check(values)));
      Add(values, tile_at(i), draft);
      return absl::OkStatus();
    });
    if (!made.ok()) return Annotate(made, names_[i]);
  }
  return absl::OkStatus();
}

MosaicStage::Draws MosaicStage::Draw(const SampleKey& key, uint64_t positions) const {
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

void MosaicStage::ListPartners(const SampleKey& key, uint64_t positions,
                               absl::FunctionRef<void(uint64_t)> take) const {
  const Draws draws = Draw(key, positions);
  for (int i = 1; draws.mosaic && i < kMosaicTiles; ++i) take(draws.positions[i]);
}

std::unique_ptr<SampleStage> MakeMosaicStage(const StageSite& site) {
  if (!site.stage.has_mosaic()) return nullptr;
  return std::make_unique<MosaicStage>(site.place, site.stage.mosaic(), site.before);
}

}  // namespace bulkhead
