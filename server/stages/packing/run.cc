#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/element_type.h"
#include "server/base/error.h"
#include "server/image/boxes/boxes.h"
#include "server/image/resize/float_resize.h"
#include "server/image/resize/linear_resize.h"
#include "server/image/resize/resize.h"
#include "server/image/resize/resize_size.h"
#include "server/spec/batch_layout.h"
#include "server/spec/batch_stages.h"
#include "server/stages/declaration/annotation.h"
#include "server/stages/packing/declare.h"
#include "server/stages/running/batch_site.h"
#include "server/stages/running/batch_stage.h"
#include "server/stages/running/common_options.h"
#include "server/stages/running/families.h"

namespace bulkhead {

namespace {

// `pack_rows`: moves the filled rows of all samples together, in place, and zeroes the memory after
// them. Does not change counts. Draws no random numbers.
class PackRowsStage final : public BatchStage {
 public:
  PackRowsStage(const BatchSite& site, const v1::PackRows&) : BatchStage(site.place()) {
    for (const std::string& name : RowsPackedAt(site.spec(), site.index(), site.features())) {
      if (!site.Has(name)) continue;  // no output
      const v1::TensorSchema& tensor = site.SchemaOf(name);
      const auto bound = static_cast<uint64_t>(tensor.shape(0));
      packed_.push_back({name, site.NumberOf(name), site.NumberOf(CountName(name)), bound,
                         bound == 0 ? 0 : tensor.sample_bytes() / bound});
    }
  }

  // INTERNAL if a count is not a number of rows: only samples write counts.
  absl::Status RunOn(const BatchRows& batch) const override {
    for (const Packed& packed : packed_) {
      BULKHEAD_RETURN_IF_ERROR(place().Name(Pack(packed, batch)));
    }
    return absl::OkStatus();
  }

 private:
  // An output of variable length, and its count.
  struct Packed {
    std::string name;
    size_t values = 0;  // numbers in the schema
    size_t counts = 0;
    uint64_t bound = 0;  // of a sample's rows
    size_t row_bytes = 0;
  };
  static absl::Status Pack(const Packed& packed, const BatchRows& batch) {
    std::byte* const values = batch.tensors[packed.values];
    uint64_t rows = 0;  // packed so far: never more than there are before sample i
    for (uint64_t i = 0; i < batch.rows; ++i) {
      int64_t count = 0;
      std::memcpy(&count, batch.tensors[packed.counts] + i * sizeof(count), sizeof(count));
      const auto filled = static_cast<uint64_t>(count);  // huge for what is below 0
      if (filled > packed.bound) {
        return MakeError(absl::StatusCode::kInternal, reason::kInternal,
                         absl::StrCat("`", packed.name, "_count` is ", count, " in row ", i,
                                      " of the batch, but a sample has 0 to ", packed.bound,
                                      " rows; please report this"));
      }
      std::memmove(values + rows * packed.row_bytes, values + i * packed.bound * packed.row_bytes,
                   filled * packed.row_bytes);
      rows += filled;
    }
    std::memset(values + rows * packed.row_bytes, 0,
                (batch.rows * packed.bound - rows) * packed.row_bytes);
    return absl::OkStatus();
  }

  std::vector<Packed> packed_;
};

// An image of a batch that is scaled, or its mask.
struct ScaledImage : BatchTensor {
  size_t size_number = 0;  // the number of the output with its size
  bool linear = true;      // else nearest: a mask
};

// Scales the samples of one output to one size.
class Scaler {
 public:
  Scaler(const ScaledImage& image, ImageSize size) : image_(image), size_(size) {
    // Images with interleaved channels, and with channels in planes.
    packed_ = image.channels_first ? 1 : image.channels;
    planes_ = image.channels_first ? image.channels : 1;
    if (image.dtype == v1::DTYPE_FLOAT32) {
      floats_.Prepare(image.size, packed_, size);
    }
  }

  size_t row_bytes() const { return planes_ * PlaneBytes(size_); }

  absl::Status Scale(const std::byte* from, std::byte* to) {
    for (size_t plane = 0; plane < planes_; ++plane) {
      BULKHEAD_RETURN_IF_ERROR(
          ScalePlane(from + plane * PlaneBytes(image_.size), to + plane * PlaneBytes(size_)));
    }
    return absl::OkStatus();
  }

 private:
  size_t PlaneBytes(ImageSize size) const {
    return static_cast<size_t>(size.height) * size.width * packed_ * ElementBytes(image_.dtype);
  }

  absl::Status ScalePlane(const std::byte* from, std::byte* to) {
    if (image_.dtype == v1::DTYPE_FLOAT32) {
      floats_.Run(reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
      return absl::OkStatus();
    }
    const auto channels = static_cast<int>(packed_);
    const size_t stride = static_cast<size_t>(image_.size.width) * packed_;
    const ImageView in{reinterpret_cast<const uint8_t*>(from), image_.size.height,
                       image_.size.width, channels, stride};
    const MutableImageView out = ContiguousImage(reinterpret_cast<uint8_t*>(to), size_, channels);
    return ResizeImage(in, image_.linear ? ResizeMethod::kLinear : ResizeMethod::kNearest, out,
                       bytes_, /*past_caches=*/false);
  }

  const ScaledImage& image_;
  const ImageSize size_;
  size_t packed_ = 0;
  size_t planes_ = 0;
  LinearResizer bytes_;
  FloatResizer floats_;
};

// A result overlaps no source but its own. If it overlaps that, it is made in other memory first.
absl::Status ScaleRows(const ScaledImage& image, ImageSize size, const BatchRows& batch) {
  std::byte* const base = batch.tensors[image.number];
  Scaler scaler(image, size);
  const size_t small = scaler.row_bytes();
  for (uint64_t i = 0; i < batch.rows; ++i) {
    const std::byte* const from = base + i * image.row_bytes;
    std::byte* const to = base + i * small;
    const bool aside = to + small > from;
    std::byte* const out = aside ? reinterpret_cast<std::byte*>(batch.scratch.Resize(small)) : to;
    BULKHEAD_RETURN_IF_ERROR(scaler.Scale(from, out));
    if (aside) std::memcpy(to, out, small);
  }
  std::memset(base + batch.rows * small, 0, batch.rows * (image.row_bytes - small));
  return absl::OkStatus();
}

void TellSize(ImageSize size, const BatchRows& batch, std::byte* to) {
  const int64_t extents[2] = {size.height, size.width};
  for (uint64_t i = 0; i < batch.rows; ++i) {
    std::memcpy(to + i * sizeof(extents), extents, sizeof(extents));
  }
}

ScaledImage ScaledImageOf(const BatchSite& site, const std::string& name, bool linear) {
  return {site.TensorOf(name), site.NumberOf(SizeName(name)), linear};
}

// `multi_scale`: scales all images of a batch, with their boxes, points and masks, to one size, in
// place and without gaps, and zeroes the memory after them. Draws NextBelow(number of sizes).
class MultiScaleStage final : public BatchStage {
 public:
  MultiScaleStage(const BatchSite& site, const v1::MultiScale& spec)
      : BatchStage(site.place()), sizes_(spec.sizes().begin(), spec.sizes().end()) {
    images_.push_back(ScaledImageOf(site, spec.input(), true));
    for (const FeatureSignature* const along : ScaledAlong(spec, site.features())) {
      if (!site.Has(along->name)) continue;  // no output
      if (along->annotation->kind == Annotation::Kind::kMask) {
        images_.push_back(ScaledImageOf(site, along->name, false));
      } else {
        coordinates_.push_back({site.NumberOf(along->name),
                                site.SchemaOf(along->name).sample_bytes(), *along->annotation});
      }
    }
  }

  absl::Status RunOn(const BatchRows& batch) const override {
    SampleRandom random = place().Random(batch.key);
    const ImageSize before = images_[0].size;
    ResizeRule rule;
    rule.by = ResizeRule::By::kLongerSide;
    rule.side = sizes_[random.NextBelow(sizes_.size())];
    rule.round = true;
    rule.max_pixels = std::numeric_limits<uint64_t>::max();
    BULKHEAD_ASSIGN_OR_RETURN(const ImageSize size, ResizedSize(before, rule));
    for (const ScaledImage& image : images_) {
      TellSize(size, batch, batch.tensors[image.size_number]);
      if (size == before) continue;
      BULKHEAD_RETURN_IF_ERROR(place().Name(ScaleRows(image, size, batch)));
    }
    if (size == before) return absl::OkStatus();
    const Geometry geometry = Geometry::Resize(before, size);
    for (const Coordinates& coordinates : coordinates_) {
      std::byte* const rows = batch.tensors[coordinates.number];
      const size_t numbers = batch.rows * coordinates.row_bytes / sizeof(float);
      if (coordinates.annotation.kind == Annotation::Kind::kBoxes) {
        MoveBoxes(geometry, CodingOf(coordinates.annotation), rows, numbers / kBoxNumbers, rows,
                  nullptr);
      } else {
        MovePoints(geometry, false, rows, numbers / 2, rows);
      }
    }
    return absl::OkStatus();
  }

 private:
  // Boxes or points in pixels.
  struct Coordinates {
    size_t number = 0;  // in the schema
    size_t row_bytes = 0;
    Annotation annotation;
  };

  std::vector<uint32_t> sizes_;      // lengths of the longer side, none above the image's
  std::vector<ScaledImage> images_;  // the image, then its masks; all of one size
  std::vector<Coordinates> coordinates_;
};

}  // namespace

std::vector<NumberedBatchMaker> PackingStages() {
  using Stage = v1::BatchStage;
  return {
      {Stage::kPackRows, MakeBatch<PackRowsStage, &Stage::pack_rows>},
      {Stage::kMultiScale, MakeBatch<MultiScaleStage, &Stage::multi_scale>},
  };
}

}  // namespace bulkhead
