#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/image/codecs/image_decoder.h"
#include "server/spec/signature.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {
class StageValues;
}

namespace bulkhead::tools {

// The bytes that a feature was seen to take.
struct SeenSize {
  uint64_t samples = 0;
  uint64_t bytes = 0;  // of all of them
  uint64_t most_bytes = 0;

  uint64_t mean_bytes() const { return samples == 0 ? 0 : bytes / samples; }
  void Add(uint64_t sample_bytes);
};

// Notes how large what comes out of the source and of the stages is, where a signature cannot say:
// encoded files and images of any size. Of a decoded image it is the whole one, by the file's
// header, also where a crop behind it has less of it decoded. Fed by a StageObserver of a pipeline
// that joins no more stages than it must; for one thread.
class StageSizes {
 public:
  // `stage_names` are the pipeline's; `spec` and `signature` outlive this.
  StageSizes(const v1::PipelineSpec& spec, const PipelineSignature& signature,
             const std::vector<std::string>& stage_names);

  // As of StageObserver.
  void Enter(uint32_t stage);
  void Leave(uint32_t stage, const StageValues& values);
  void Reset();

  // What is known of a feature behind the stage called `stage` ("source", "stages[1] resize").
  SeenSize Of(const std::string& stage, const std::string& feature) const;

 private:
  // A stage that runs.
  struct Running {
    std::string name;
    std::vector<std::string> features;  // as its StageValues has them
    // Of one that decodes: how, the stage behind it, which may be a crop that runs with it, and
    // what a pixel takes.
    std::optional<Decoding> decoding;
    std::string behind;
    uint64_t pixel_bytes = 1;
    bool has_partners = false;
  };
  void AddChain(const v1::PipelineSpec& spec, const PipelineSignature& signature, size_t number,
                const std::vector<std::string>& stage_names);

  std::vector<Running> running_;  // by the observer's numbers
  // Encoded values of the sample at hand, by feature: views that its next stage may use.
  std::map<std::string, absl::string_view> encoded_;
  ImageDecoder decoder_;
  // By stage and feature.
  using Seen = std::map<std::pair<std::string, std::string>, SeenSize>;
  Seen seen_;
  // What decoders left, under the names of the stages behind: right where those never run alone.
  Seen left_by_decoders_;
};

}  // namespace bulkhead::tools
