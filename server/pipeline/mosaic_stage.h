#ifndef BULKHEAD_SERVER_PIPELINE_MOSAIC_STAGE_H_
#define BULKHEAD_SERVER_PIPELINE_MOSAIC_STAGE_H_

#include <array>
#include <string>
#include <vector>

#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/boxes/mosaic.h"
#include "server/pipeline/sample_stage.h"
#include "server/spec/signature.h"

namespace bulkhead {

// `mosaic`: the sample and three others in one image, with the rows of all four. Its values are
// those of MosaicFeatures. One image after the other goes into the result and is done with, so that
// never more than one is held beside it.
//
// Draws, which are part of the data format: NextUnit() against the probability; where that makes a
// mosaic, NextBelow(positions) for the top right, the bottom left and the bottom right image, then
// NextUniform(center) × height and NextUniform(center) × width, truncated, for the point where they
// meet. Sample errors: ROWS_DIFFER, where a feature of `with` has not a row for each box of its
// sample (asked when the image has one feature of boxes); IMAGE_SIZES_DIFFER, for a mask of another
// size than its image.
class MosaicStage : public SampleStage {
 public:
  MosaicStage(StagePlace place, const v1::Mosaic& spec,
              const std::vector<FeatureSignature>& before);
  absl::Status RunOn(const StageValues& values, const StageContext& context) const override;
  Effect effect() const override { return Effect::kWritesFirst; }
  void ListPartners(const SampleKey& key, uint64_t positions,
                    absl::FunctionRef<void(uint64_t)> take) const override;

 private:
  // A value but the first, and where in the stage's memory what becomes of it lies.
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
  // What came together so far, in the memory of the thread.
  struct Draft {
    MutableImageView canvas;
    uint8_t* memory;    // of all parts
    size_t* row_count;  // by part

    MutableImageView MaskOf(const Part& part) const;
  };

  // What a sample's key decides, of `positions` an epoch; 0: whether it is a mosaic, alone.
  struct Draws {
    bool mosaic = false;
    std::array<uint64_t, kMosaicTiles> positions = {};  // of the others, from 1 on
    int y = 0;
    int x = 0;
  };
  Draws Draw(const SampleKey& key, uint64_t positions) const;

  static Part PartOf(const FeatureSignature& feature);
  // Whether one sample's values belong together, and are no more than there is room for.
  absl::Status Check(const StageValues& values) const;
  // Adds them.
  void Add(const StageValues& values, const MosaicTile& tile, const Draft& draft) const;
  void AddRows(const Part& part, const Value& value, ImageSize image, const MosaicTile& tile,
               const Draft& draft, size_t& row_count) const;
  static size_t RowsOf(const Part& part, const Value& value);
  absl::Status AddFour(const StageValues& values, const StageContext& context, const Draws& draws,
                       const Draft& draft) const;
  // Makes the values those that came together.
  void Take(const Draft& draft, const StageValues& values) const;

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

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_PIPELINE_MOSAIC_STAGE_H_
