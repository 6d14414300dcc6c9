// Specs whose source is a mixture: what is filled in, what is refused and where, what is inferred.
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/spec/fingerprint.h"
#include "server/spec/normalize/normalize.h"
#include "server/spec/signature.h"
#include "server/spec/source_chain.h"
#include "server/spec/yaml/yaml.h"
#include "tests/spec/spec_makers.h"

namespace bulkhead::mixture_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Faces and other pictures: own features, own orders, own stages, then common ones.
constexpr char kFaces[] = R"(source:
  mixture:
    sources:
      - weight: 0.9
        source: {tfrecord: {files: pos.tfrecord}}
        features:
          image: {key: img_raw, bytes: {}}
          boxes: {tensor: {dtype: float32, shape: [-1, 4], max_count: 8}}
        order: {global: {}}
        stages:
          - decode_image: {max_pixels: 1000}
          - resize: {size: [32, 24]}
      - weight: 0.1
        source: {tfrecord: {files: neg.tfrecord}}
        features:
          image: {bytes: {}}
          boxes: {tensor: {dtype: float32, shape: [-1, 4], max_count: 8, allow_missing: true}}
        stages:
          - decode_image: {max_pixels: 5000}
          - center_crop: {size: [32, 24]}
stages:
  - random_horizontal_flip
batch: {size: 4}
)";

v1::PipelineSpec Parsed(absl::string_view text) {
  auto spec = ParseSpec(text, "m.yaml");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *std::move(spec) : v1::PipelineSpec();
}

// The faces with one piece of their text replaced.
std::string Faces(absl::string_view from, absl::string_view to) {
  const std::string text = absl::StrReplaceAll(kFaces, {{from, to}});
  EXPECT_NE(text, kFaces) << from;
  return text;
}

std::string Problem(const std::string& text) {
  const auto spec = ParseSpec(text, "m.yaml");
  return spec.ok() ? "valid" : std::string(spec.status().message());
}

TEST(MixtureSpecTest, DefaultsAreFilledInForEverySource) {
  const v1::PipelineSpec spec = Parsed(kFaces);
  const v1::MixtureSource& mixture = spec.source().mixture();
  EXPECT_EQ(mixture.stop(), v1::MIXTURE_STOP_FIRST_EXHAUSTED);
  EXPECT_FALSE(spec.has_order());
  EXPECT_TRUE(mixture.sources(0).order().global().reshuffle());
  EXPECT_TRUE(mixture.sources(1).order().has_sequential());
  EXPECT_EQ(mixture.sources(1).features().at("image").key(), "image");
  EXPECT_EQ(mixture.sources(1).stages(0).decode_image().input(), "image");
  v1::PipelineSpec again = spec;
  EXPECT_TRUE(Normalize(again).ok());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(again, spec));
}

TEST(MixtureSpecTest, SurvivesItsOwnText) {
  const v1::PipelineSpec spec = Parsed(kFaces);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(Parsed(SpecToYaml(spec)), spec))
      << SpecToYaml(spec);
}

TEST(MixtureSpecTest, OutputsHoldTheNumberOfTheSource) {
  const auto signature = InferSignature(Parsed(kFaces)).value();
  std::vector<std::string> names;
  for (const auto& tensor : signature.schema.tensors()) names.push_back(tensor.name());
  EXPECT_THAT(names, ElementsAre("boxes", "boxes_count", "image", "source_id"));
  EXPECT_EQ(signature.schema.tensors(3).dtype(), v1::DTYPE_INT64);
  EXPECT_THAT(signature.schema.tensors(3).shape(), ElementsAre());
}

TEST(MixtureSpecTest, ACommonStageMayReadTheNumberOfTheSource) {
  const auto spec = Parsed(
      Faces("  - random_horizontal_flip\n", "  - one_hot: {input: source_id, classes: 2}\n"));
  EXPECT_EQ(InferSignature(spec)->schema.tensors(3).dtype(), v1::DTYPE_FLOAT32);
}

TEST(MixtureSpecTest, AWorkerNeedsRoomForTheGreediestSource) {
  const auto sample_bytes = [](const std::string& text) {
    return InferSignature(Parsed(text))->sample_bytes;
  };
  const uint64_t before = sample_bytes(kFaces);
  EXPECT_EQ(sample_bytes(Faces("max_pixels: 1000", "max_pixels: 2000")), before);
  EXPECT_GT(sample_bytes(Faces("max_pixels: 5000", "max_pixels: 6000")), before);
  EXPECT_GT(sample_bytes(Faces("max_pixels: 1000", "max_pixels: 9000")), before);
}

TEST(MixtureSpecTest, StagesKnowTheirPlaceInTheWrittenSpec) {
  const v1::PipelineSpec spec = Parsed(kFaces);
  const std::vector<SourceChain> chains = SourceChains(spec);
  ASSERT_EQ(chains.size(), 2u);
  EXPECT_EQ(chains[1].source_id, 1);
  EXPECT_EQ(chains[1].own_steps, 2u);
  ASSERT_EQ(chains[1].steps.size(), 3u);
  EXPECT_EQ(chains[1].steps[1].path, "source.mixture.sources[1].stages[1]");
  EXPECT_EQ(chains[1].steps[2].path, "stages[0]");
  EXPECT_EQ(chains[1].steps[2].stage, &spec.stages(0));
}

TEST(MixtureSpecTest, WhatBelongsToASourceIsRefusedAtTheTop) {
  EXPECT_EQ(Problem(absl::StrCat(kFaces, "order: {global: {}}\n")),
            "m.yaml:24:1: order: stands on each source of a mixture: move it to "
            "source.mixture.sources, beside `weight`");
  EXPECT_THAT(Problem(absl::StrCat(kFaces, "features: {label: int64}\n")),
              HasSubstr("m.yaml:24:1: features: stands on each source"));
  EXPECT_THAT(Problem(absl::StrCat(kFaces, "filter: {feature: label, in: 3}\n")),
              HasSubstr("m.yaml:24:1: filter: stands on each source"));
  EXPECT_THAT(Problem(absl::StrCat(kFaces, "skip: 3\n")),
              HasSubstr("m.yaml:24:7: skip: stands on each source"));
  EXPECT_THAT(Problem(absl::StrCat(kFaces, "take: 3\n")),
              HasSubstr("m.yaml:24:7: take: stands on each source"));
}

TEST(MixtureSpecTest, WeightsArePositiveNumbers) {
  EXPECT_EQ(Problem(Faces("weight: 0.1", "weight: 0")),
            "m.yaml:13:17: source.mixture.sources[1].weight: is 0; it must lie between 1e-09 and "
            "1e+09");
  for (const char* weight : {"-1", ".nan", ".inf", "1e-300", "1e300"}) {
    EXPECT_THAT(Problem(Faces("weight: 0.1", absl::StrCat("weight: ", weight))),
                HasSubstr("m.yaml:13:17: source.mixture.sources[1].weight: is "))
        << weight;
  }
}

TEST(MixtureSpecTest, StopPolicies) {
  const auto with = [](const std::string& options) {
    return Problem(Faces("    sources:\n", absl::StrCat(options, "    sources:\n")));
  };
  EXPECT_EQ(with("    stop: all_exhausted\n"), "valid");
  EXPECT_EQ(with("    stop: never\n    samples_per_epoch: 5\n"), "valid");
  EXPECT_THAT(with("    stop: never\n"), HasSubstr("samples_per_epoch: is required with"));
  EXPECT_THAT(with("    samples_per_epoch: 5\n"),
              HasSubstr("m.yaml:3:24: source.mixture.samples_per_epoch: goes with `stop: never`"));
  EXPECT_THAT(with("    stop: nevr\n"), HasSubstr("did you mean `never`?"));
}

TEST(MixtureSpecTest, SourcesAreAtLeastTwoAndNoMixtures) {
  EXPECT_THAT(Problem("source: {mixture: {}}\nbatch: {size: 1}\n"),
              HasSubstr("m.yaml:1:10: source.mixture.sources: has 0; a mixture is of 2 to 256"));
  EXPECT_THAT(Problem("source: {mixture: {sources: [{weight: 1, source: {range: {size: 3}}}]}}\n"
                      "batch: {size: 1}\n"),
              HasSubstr("m.yaml:1:20: source.mixture.sources: has 1;"));
  EXPECT_THAT(
      Problem(Faces("{tfrecord: {files: neg.tfrecord}}", "{mixture: {sources: []}}")),
      HasSubstr("m.yaml:14:18: source.mixture.sources[1].source.mixture: is not allowed here"));
  EXPECT_THAT(Problem(Faces("        source: {tfrecord: {files: neg.tfrecord}}\n", "")),
              HasSubstr("m.yaml:13:9: source.mixture.sources[1].source: is required"));
}

TEST(MixtureSpecTest, WhatIsWrongInsideASourceIsFoundThere) {
  EXPECT_THAT(Problem(Faces("order: {global: {}}", "order: {block: {}}")),
              HasSubstr("m.yaml:9:17: source.mixture.sources[0].order.block.block_size: is requi"));
  EXPECT_THAT(Problem(Faces("center_crop: {size: [32, 24]}", "center_crop: {}")),
              HasSubstr("m.yaml:20:13: source.mixture.sources[1].stages[1].center_crop.size: is "));
  EXPECT_THAT(Problem(Faces("          image: {bytes: {}}", "          image: {int64: {}}")),
              HasSubstr("m.yaml:19:13: source.mixture.sources[1].stages[0].decode_image"));
  EXPECT_THAT(Problem(Faces("max_count: 8, allow_missing: true", "allow_missing: true")),
              HasSubstr("m.yaml:17:51: source.mixture.sources[1].features.boxes.tensor.shape: a "));
}

TEST(MixtureSpecTest, EachSourceHasItsOwnSelection) {
  const auto with = [](const std::string& lines) {
    return Faces("      - weight: 0.1\n", absl::StrCat("      - weight: 0.1\n", lines));
  };
  EXPECT_EQ(Problem(with("        split: {parts: {a: 0.5, b: 0.5}, use: a}\n        take: 9\n")),
            "valid");
  EXPECT_THAT(Problem(with("        filter: {feature: labl, in: 3}\n")),
              HasSubstr("m.yaml:14:27: source.mixture.sources[1].filter[0].feature: "));
  EXPECT_THAT(Problem(with("        take: 0\n")),
              HasSubstr("m.yaml:14:15: source.mixture.sources[1].take: must be at least 1"));
}

TEST(MixtureSpecTest, SourcesMustOfferTheSameFeatures) {
  EXPECT_THAT(
      Problem(Faces("center_crop: {size: [32, 24]}", "center_crop: {size: [32, 32]}")),
      HasSubstr("m.yaml:20:13: source.mixture.sources[1].stages[1].center_crop: `image` of "
                "sources[1] is an image of uint8 [32,32,3], but of sources[0] an image of uint8 "
                "[32,24,3]; "));
  EXPECT_THAT(Problem(Faces("max_count: 8, allow", "max_count: 9, allow")),
              HasSubstr("`boxes` of sources[1] is float32 [9,4] of variable length, but of "
                        "sources[0] float32 [8,4] of variable length"));
  EXPECT_THAT(Problem(Faces("          image: {bytes: {}}\n",
                            "          image: {bytes: {}}\n          label: int64\n")),
              HasSubstr("m.yaml:4:9: source.mixture.sources[0]: does not offer `label`, which "
                        "sources[1] does; "));
  EXPECT_THAT(Problem(Faces("          image: {bytes: {}}\n",
                            "          image: {bytes: {}}\n          source_id: int64\n")),
              HasSubstr("source.mixture.sources[1].features.source_id.int64: `source_id` is what"));
}

TEST(MixtureSpecTest, WithOutputsOnlyWhatIsUsedMustBeTheSame) {
  const std::string more = Faces("          image: {bytes: {}}\n",
                                 "          image: {bytes: {}}\n          label: int64\n");
  EXPECT_EQ(Problem(more + "outputs: [image, source_id]\n"), "valid");
  EXPECT_THAT(Problem(more + "outputs: [image, label]\n"), HasSubstr("does not offer `label`"));
  const std::string read =
      absl::StrReplaceAll(more, {{"  - random_horizontal_flip\n", "  - one_hot: {classes: 3}\n"}});
  EXPECT_THAT(Problem(read + "outputs: [image]\n"), HasSubstr("does not offer `label`"));
  EXPECT_THAT(Problem(more + "outputs: [imag]\n"), HasSubstr("did you mean `image`?"));
}

TEST(MixtureSpecTest, BytesWithoutABoundAreFoundInTheirSource) {
  const std::string text =
      "source:\n  mixture:\n    sources:\n"
      "      - {weight: 1, source: {tfrecord: {files: a}}, features: {text: {bytes: {}}}}\n"
      "      - {weight: 1, source: {tfrecord: {files: b}}, features: {text: {bytes: {}}}}\n"
      "batch: {size: 1}\n";
  EXPECT_THAT(Problem(text),
              HasSubstr("or give source.mixture.sources[0].features.text.bytes.max_bytes"));
}

internal::v1::ResolvedSource TwoSources() {
  return FromText<internal::v1::ResolvedSource>(R"(
    mixed { files { name: 'pos.tfrecord' size_bytes: 100 record_count: 3 checksum: '\x01' } }
    mixed { files { name: 'neg.tfrecord' size_bytes: 200 record_count: 4 checksum: '\x02' } })");
}

TEST(MixtureFingerprintTest, EverythingThatDecidesTheOrderIsInIt) {
  const v1::PipelineSpec before = Parsed(kFaces);
  const std::string order = OrderFingerprint(before, TwoSources());
  const std::function<void(v1::MixtureSource&)> changes[] = {
      [](auto& mixture) { mixture.mutable_sources(0)->set_weight(0.8); },
      [](auto& mixture) { mixture.mutable_sources()->SwapElements(0, 1); },
      [](auto& mixture) { mixture.set_stop(v1::MIXTURE_STOP_ALL_EXHAUSTED); },
      [](auto& mixture) { mixture.set_samples_per_epoch(7); },
      [](auto& mixture) { mixture.mutable_sources(1)->set_skip(7); },
      [](auto& mixture) { mixture.mutable_sources(1)->mutable_split()->set_use("a"); },
      [](auto& mixture) { mixture.mutable_sources(1)->mutable_order()->mutable_global(); }};
  for (const auto& change : changes) {
    v1::PipelineSpec spec = before;
    change(*spec.mutable_source()->mutable_mixture());
    EXPECT_NE(OrderFingerprint(spec, TwoSources()), order) << spec.DebugString();
  }
  const std::function<void(internal::v1::ResolvedSource&)> files[] = {
      [](auto& mixed) { mixed.mutable_files(0)->set_name("other"); },
      [](auto& mixed) { mixed.mutable_files(0)->set_checksum("\x03"); },
      [](auto& mixed) { mixed.mutable_files(0)->set_record_count(5); },
      [](auto& mixed) { mixed.add_files(); }};
  for (const auto& change : files) {
    auto resolved = TwoSources();
    change(*resolved.mutable_mixed(1));
    EXPECT_NE(OrderFingerprint(before, resolved), order) << resolved.DebugString();
  }
  v1::PipelineSpec seeded = before;
  seeded.set_seed(5);
  EXPECT_NE(OrderFingerprint(seeded, TwoSources()), order);
}

TEST(MixtureFingerprintTest, ProcessingIsInTheBytesOnly) {
  const v1::PipelineSpec before = Parsed(kFaces);
  const std::function<void(v1::PipelineSpec&, v1::MixedSource&)> changes[] = {
      [](auto&, auto& mixed) { mixed.mutable_stages()->RemoveLast(); },
      [](auto&, auto& mixed) { (*mixed.mutable_features())["image"].set_key("other"); },
      [](auto& spec, auto&) { spec.mutable_stages()->RemoveLast(); }};
  for (const auto& change : changes) {
    v1::PipelineSpec spec = before;
    change(spec, *spec.mutable_source()->mutable_mixture()->mutable_sources(1));
    EXPECT_NE(BytesFingerprint(spec), BytesFingerprint(before)) << spec.DebugString();
    EXPECT_EQ(OrderFingerprint(spec, TwoSources()), OrderFingerprint(before, TwoSources()));
  }
  v1::PipelineSpec weights = before;
  weights.mutable_source()->mutable_mixture()->mutable_sources(1)->set_weight(0.2);
  weights.mutable_source()
      ->mutable_mixture()
      ->mutable_sources(1)
      ->mutable_order()
      ->mutable_global();
  EXPECT_EQ(BytesFingerprint(weights), BytesFingerprint(before));
}

}  // namespace
}  // namespace bulkhead::mixture_test
