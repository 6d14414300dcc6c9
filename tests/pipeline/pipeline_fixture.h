#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/base/error.h"
#include "server/pipeline/make_pipeline.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/source_chain.h"
#include "tests/image/test_images.h"
#include "tests/pipeline/fake_source.h"

namespace bulkhead {

// Image, label, variable boxes and a short text: what the specs below read.
inline constexpr char kFeatures[] = R"(
  source { tfrecord { files: "fake.tfrecord" } }
  features { key: "image" value { bytes {} } }
  features { key: "label" value { int64 {} } }
  features { key: "boxes" value { tensor { dtype: DTYPE_FLOAT32 shape: [-1, 4] max_count: 3 } } }
  features { key: "text" value { bytes { max_bytes: 8 } } }
  batch { size: 4 }
)";

inline v1::PipelineSpec MakeSpec(const std::string& stages,
                                 const std::string& features = kFeatures) {
  v1::PipelineSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(features + stages, &spec)) << stages;
  const absl::Status status = Normalize(spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec;
}

inline FakeRecord MakeRecord(std::string image, int64_t label = 2) {
  FakeRecord record;
  record.features["image"] = {std::move(image)};
  record.features["label"] = {BytesOf<int64_t>({label})};
  record.features["boxes"] = {BytesOf<float>({1, 2, 3, 4, 5, 6, 7, 8}), 2};
  record.features["text"] = {"hello"};
  return record;
}

// One sample's outputs, by the schema's order; or why there are none.
struct Produced {
  absl::Status status;
  std::vector<std::string> outputs;
};

// What a pipeline calls its stages the service, which plans none, knows from the spec.
inline void ExpectKnownNames(const Pipeline& pipeline, const v1::PipelineSpec& spec) {
  const std::set<std::string> known = StageLabels(spec);
  for (const std::string& name : pipeline.StageNames()) EXPECT_EQ(known.count(name), 1u) << name;
}

// A pipeline over records in memory, and a context for it.
class PipelineUnderTest {
 public:
  PipelineUnderTest(const v1::PipelineSpec& spec, std::vector<FakeRecord> records, bool fuse = true,
                    const UserCode& user_code = {}) {
    const auto signature = InferSignature(spec);
    EXPECT_TRUE(signature.ok()) << signature.status();
    signature_ = *signature;
    std::vector<std::unique_ptr<Source>> sources;
    sources.push_back(
        std::make_unique<FakeSource>(signature_.sources[0].source_features, std::move(records)));
    auto made = MakePipeline(std::move(sources), spec, {.fuse = fuse, .user_code = user_code});
    EXPECT_TRUE(made.ok()) << made.status();
    pipeline_ = std::move(*made);
    ExpectKnownNames(*pipeline_, spec);
    context_ = pipeline_->NewContext();
  }

  // Canaries around each output show writes outside it; its bytes are garbage before.
  Produced Produce(uint64_t record, const SampleKey& key) {
    constexpr size_t kCanaryBytes = 64;
    std::vector<std::string> memory;
    std::vector<std::byte*> destinations;
    for (const v1::TensorSchema& tensor : schema().tensors()) {
      memory.emplace_back(tensor.sample_bytes() + 2 * kCanaryBytes, '\xA5');
    }
    for (std::string& bytes : memory) {
      destinations.push_back(reinterpret_cast<std::byte*>(bytes.data() + kCanaryBytes));
    }
    Produced produced;
    produced.status = pipeline_->Produce(record, key, *context_, destinations);
    const std::string canary(kCanaryBytes, '\xA5');
    for (const std::string& bytes : memory) {
      EXPECT_EQ(bytes.substr(0, kCanaryBytes), canary);
      EXPECT_EQ(bytes.substr(bytes.size() - kCanaryBytes), canary);
      produced.outputs.push_back(bytes.substr(kCanaryBytes, bytes.size() - 2 * kCanaryBytes));
    }
    return produced;
  }

  const v1::BatchSchema& schema() const { return signature_.schema; }
  const Pipeline& pipeline() const { return *pipeline_; }
  PipelineContext& context() { return *context_; }

  // The output called `name`.
  std::string Output(const Produced& produced, absl::string_view name) const {
    for (int i = 0; i < schema().tensors_size(); ++i) {
      if (schema().tensors(i).name() == name) return produced.outputs[i];
    }
    ADD_FAILURE() << "no output " << name;
    return "";
  }

 private:
  PipelineSignature signature_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<PipelineContext> context_;
};

}  // namespace bulkhead
