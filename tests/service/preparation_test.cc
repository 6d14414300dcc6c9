#include "server/service/preparation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/error.h"

namespace bulkhead {
namespace {

constexpr char kFaulty[] =
    "source: {range: {size: 10}}\nbatch: {size: 2}\nstages: [fault: {crash: true}]\n";

absl::StatusOr<PreparedPipeline> Understand(const std::string& text, bool allow_fault_stages) {
  ServiceLimits limits;
  limits.worker_quota_bytes = uint64_t{1} << 30;
  limits.allow_fault_stages = allow_fault_stages;
  v1::SpecInput input;
  input.mutable_text()->set_text(text);
  return Preparer(limits, {}, nullptr).Understand(input);
}

TEST(PreparerTest, RefusesFaultStagesUnlessTheServiceAllowsThem) {
  const auto refused = Understand(kFaulty, false);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  const auto info = GetErrorInfo(refused.status());
  ASSERT_TRUE(info.has_value()) << refused.status();
  EXPECT_EQ(info->reason, reason::kSpecInvalid);
  EXPECT_EQ(info->metadata.at("path"), "stages[0].fault");
  EXPECT_THAT(std::string(refused.status().message()), testing::HasSubstr("--allow-fault-stages"));
  const auto allowed = Understand(kFaulty, true);
  EXPECT_TRUE(allowed.ok()) << allowed.status();
}

// What functions behind a range may read.
std::vector<std::string> RootsBehindRange(const DataRoots& roots, const std::string& stage) {
  ServiceLimits limits;
  limits.worker_quota_bytes = uint64_t{1} << 30;
  limits.no_python.clear();
  v1::SpecInput input;
  input.mutable_text()->set_text("source: {range: {size: 10}}\nbatch: {size: 2}\nstages:\n" +
                                 stage);
  const auto prepared = Preparer(limits, roots, nullptr).Understand(input);
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  if (!prepared.ok()) return {};
  return {prepared->resolved.roots().begin(), prepared->resolved.roots().end()};
}

TEST(PreparerTest, OnlyUserCodeBehindARangeMayReadTheRoots) {
  const std::string python =
      "- python: {function: 'a:f', inputs: [index], outputs: [{name: x, dtype: int64}]}\n";
  const std::string own = "- cast: {input: index, dtype: int32}\n";
  const DataRoots two{{"/one", "/two"}, false};
  EXPECT_THAT(RootsBehindRange(two, python), testing::ElementsAre("/one", "/two"));
  EXPECT_THAT(RootsBehindRange({{}, true}, python), testing::ElementsAre("/"));
  EXPECT_THAT(RootsBehindRange({}, python), testing::IsEmpty());
  EXPECT_THAT(RootsBehindRange(two, own), testing::IsEmpty());
}

TEST(PreparerTest, MissingDataOfAMixtureIsNamedByItsLine) {
  ServiceLimits limits;
  limits.worker_quota_bytes = uint64_t{1} << 30;
  const Preparer preparer(limits, {{}, true}, nullptr);
  v1::SpecInput input;
  input.mutable_text()->set_name("m.yaml");
  input.mutable_text()->set_text(R"(source:
  mixture:
    sources:
      - {weight: 0.5, source: {image_folder: {path: /no/such}}, stages: [decode_image, resize: {size: 8}]}
      - {weight: 0.5, source: {image_folder: {path: /nor/this}}, stages: [decode_image, resize: {size: 8}]}
batch: {size: 2}
)");
  auto prepared = preparer.Understand(input);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const absl::Status status = preparer.FindData(
      "/", *prepared, [](const v1::Progress&) {}, [] { return false; });
  EXPECT_THAT(std::string(status.message()),
              testing::StartsWith(
                  "m.yaml:4:53: source.mixture.sources[0].source.image_folder.path: /no/such"));
}

TEST(PreparerTest, ReadsNoMoreCodeOnceNobodyWaitsForIt) {
  const Preparer preparer({}, {}, nullptr);
  int asked = 0;
  const auto files = preparer.ReadCode({"c.py", "a.py", "b.py", "a.py"}, [&] {
    ++asked;
    return false;
  });
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(files->size(), 3u) << "each once";
  EXPECT_EQ(asked, 3);
  const auto none = preparer.ReadCode({"a.py"}, [] { return true; });
  EXPECT_TRUE(absl::IsCancelled(none.status())) << none.status();
}

}  // namespace
}  // namespace bulkhead
