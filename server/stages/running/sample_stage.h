#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "server/base/error.h"
#include "server/base/random.h"
#include "server/image/codecs/image_decoder.h"
#include "server/image/geometry/geometry.h"
#include "server/image/image.h"
#include "server/image/resize/linear_resize.h"
#include "server/image/resize/resample.h"
#include "server/stages/running/decoded_frames.h"
#include "server/stages/running/sample_key.h"
#include "server/stages/running/user_code.h"
#include "server/stages/running/value.h"

namespace bulkhead {

// The memory that one stage keeps between samples, for one thread.
struct StageScratch {
  Image image;            // a decoded image
  Image deep;             // the same with 16 bits a channel
  Image upright;          // the same, turned by its EXIF orientation
  ScratchBuffer bytes;    // the stage's result, where it does not go into the batch
  ScratchBuffer resized;  // between a resize and later work in the same stage
  ScratchBuffer row;
  LinearResizer resizer;
  ResampleScratch resample;
};

// Makes other samples, up to this stage, for a stage that puts several into one. Belongs to one
// sample and thread, and lives while the stage runs.
struct PartnerMaker {
  // The number of positions of an epoch; at least 1.
  uint64_t positions;
  // Replaces the stage's values by those that the sample at `position` of the same epoch has before
  // this stage, and calls `use`. The previous values are lost; what the stage has written stays. If
  // the sample is bad, or `use` rejects it, another may replace it, by the stream's policy. `what`,
  // "stages[2] mosaic: its top right image", names the other sample in reports. Errors: those of
  // the other sample, which they name.
  absl::FunctionRef<absl::Status(uint64_t position, absl::string_view what,
                                 absl::FunctionRef<absl::Status()> use)>
      make;
};

// What a stage gets for one sample, besides its values.
struct StageContext {
  ImageDecoder& decoder;
  StageScratch& scratch;
  const SampleKey& key;
  // The sample's record, by its number within its source, and how many samples this process has
  // begun before it.
  uint64_t record;
  uint64_t samples_before;
  // Where the result belongs if this stage is the last to write its output: all of the output's
  // sample_bytes. Null: the result goes into scratch.
  std::byte* target;
  // Where stages note how the pixels of their first value move, for boxes, points and masks that
  // follow; null if nothing follows.
  GeometryTrail* trail = nullptr;
  // For stages that put several samples into one; null for others.
  const PartnerMaker* partners = nullptr;
  // Images are decoded whole, even if only a part is needed.
  bool whole_images = false;
  // Frames that the sample has in common with its neighbours; null: it has none.
  DecodedFrames* frames = nullptr;

  void Moved(const Geometry& geometry) const {
    if (trail != nullptr) trail->push_back(geometry);
  }
  // Memory for a result of `size_bytes`.
  std::byte* Result(size_t size_bytes) const {
    return target != nullptr ? target
                             : reinterpret_cast<std::byte*>(scratch.bytes.Resize(size_bytes));
  }
};

// The stage's place in the written spec. It names the stage in messages and is the key of its
// random numbers, so joining stages changes no random number.
struct StagePlace {
  // The key is a path with slashes: "stages/2", "source/mixture/sources/1/stages/0". `key_path`:
  // the path for the key; default: `path`.
  StagePlace(std::string stage_path, std::string stage_name, absl::string_view key_path = "")
      : path(std::move(stage_path)),
        name(std::move(stage_name)),
        key(StableHash(absl::StrReplaceAll(key_path.empty() ? absl::string_view(path) : key_path,
                                           {{"[", "/"}, {"]", ""}, {".", "/"}}))) {}

  std::string path;  // "stages[2]", "source.mixture.sources[1].stages[0]"
  std::string name;  // "decode_image"
  uint64_t key;      // of its random numbers

  std::string Label() const { return absl::StrCat(path, " ", name); }
  // `status` with the stage in its message and metadata.
  absl::Status Name(const absl::Status& status) const {
    if (status.ok()) return status;
    return Annotate(status, Label(), {{"stage", Label()}});
  }
  template <typename Result>
  absl::StatusOr<Result> Name(absl::StatusOr<Result> result) const {
    if (!result.ok()) return Name(result.status());
    return result;
  }
  SampleRandom Random(const SampleKey& sample) const {
    return SampleRandom(sample.seed, sample.epoch, sample.position, key);
  }
};

// The values that a stage works on: those of the features that it reads, then those of the features
// that it makes, each in the stage's order.
class StageValues {
 public:
  StageValues(std::vector<Value>& values, absl::Span<const size_t> features)
      : values_(values), features_(features) {}
  size_t size() const { return features_.size(); }
  Value& operator[](size_t i) const { return values_[features_[i]]; }

 private:
  std::vector<Value>& values_;
  absl::Span<const size_t> features_;
};

// One running stage: replaces values of a sample. Immutable; thread-safe, if each thread has its
// own context.
class SampleStage {
 public:
  explicit SampleStage(StagePlace place) : place_(std::move(place)) {}
  virtual ~SampleStage() = default;
  SampleStage(const SampleStage&) = delete;
  SampleStage& operator=(const SampleStage&) = delete;

  // Errors carry the stage's name: sample errors, and INTERNAL.
  virtual absl::Status RunOn(const StageValues& values, const StageContext& context) const = 0;

  enum class Effect {
    kWrites,       // the result, unless it is the unchanged value, is in StageContext::Result
    kWritesFirst,  // the first value's result is there, other results are in scratch
    kViews,        // the result is a view of the input or of scratch
    kInPlace,      // the value stays where it is, with as many bytes
  };
  virtual Effect effect() const = 0;

  // Whether the stage may change value `i`. If not, it only reads the value's extents.
  virtual bool Changes(size_t) const { return true; }

  // Whether the stage takes a first value whose file is not read yet (Value::unread).
  virtual bool TakesUnread() const { return false; }

  // Joins stages into one pass. The planner calls this before the first sample if `next` directly
  // follows this stage and both work on the same single value. True: this stage now does the work
  // of both, and has taken `next`. Without `fuse`, joins only stages that would give other bytes or
  // verdicts separately.
  virtual bool TakeBehind(std::unique_ptr<SampleStage>& next, bool fuse) {
    (void)next, (void)fuse;
    return false;
  }
  // The same for `previous`, the stage directly before, if that did not take this stage.
  virtual bool TakeBefore(std::unique_ptr<SampleStage>& previous, bool fuse) {
    (void)previous, (void)fuse;
    return false;
  }

  // Calls `take` with the position of each other sample that the sample of `key` will need, in an
  // epoch of `positions`.
  virtual void ListPartners(const SampleKey&, uint64_t /*positions*/,
                            absl::FunctionRef<void(uint64_t)> /*take*/) const {}

  // Loads what the stage needs from outside: user code. Called once, before the first sample and
  // before other threads use the stage. Errors carry the stage's name: STAGE_UNUSABLE.
  virtual absl::Status Load(const UserCode&) { return absl::OkStatus(); }

  const StagePlace& place() const { return place_; }

 private:
  StagePlace place_;
};

// Takes `stage` if it is a `Wanted`; else returns null and leaves `stage`.
template <typename Wanted>
std::unique_ptr<Wanted> TakeAs(std::unique_ptr<SampleStage>& stage) {
  auto* const wanted = dynamic_cast<Wanted*>(stage.get());
  if (wanted != nullptr) (void)stage.release();
  return std::unique_ptr<Wanted>(wanted);
}

// A stage that replaces the value of one feature.
class ValueStage : public SampleStage {
 public:
  using SampleStage::SampleStage;
  absl::Status RunOn(const StageValues& values, const StageContext& context) const final {
    return Run(values[0], context);
  }
  virtual absl::Status Run(Value& value, const StageContext& context) const = 0;
};

}  // namespace bulkhead
