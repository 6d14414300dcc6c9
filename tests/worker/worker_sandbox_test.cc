#include "server/worker/worker_sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/cache/segment_folder.h"

namespace bulkhead {
namespace {

using testing::Contains;
using testing::Not;

internal::v1::Bind BindTo(uint32_t threads = 1) {
  internal::v1::Bind bind;
  bind.set_threads(threads);
  bind.mutable_sandbox()->set_seccomp(true);
  bind.mutable_sandbox()->add_readable("/cache");
  return bind;
}

internal::v1::PipelineBinding Files() {
  internal::v1::PipelineBinding binding;
  binding.mutable_source()->mutable_tfrecord();
  return binding;
}

TEST(PipelineSandboxTest, ReadsTheRootsAndTheCacheAndNothingElse) {
  internal::v1::PipelineBinding binding = Files();
  binding.mutable_resolved()->add_roots("/data");
  const SandboxOptions options = PipelineSandbox(BindTo(), binding);
  EXPECT_THAT(options.readable, Contains("/data"));
  EXPECT_THAT(options.readable, Contains("/cache"));
  EXPECT_THAT(options.readable, Not(Contains("/usr")));
}

TEST(PipelineSandboxTest, WithoutRootsTheUsersRightsAreTheLimit) {
  const SandboxOptions options = PipelineSandbox(BindTo(), Files());
  EXPECT_THAT(options.readable, Contains("/usr"));
  EXPECT_THAT(options.readable, Contains("/dev/shm"));
  // Devices and other processes hold no data.
  for (const char* none : {"/", "/dev", "/proc", "/sys"}) {
    EXPECT_THAT(options.readable, Not(Contains(none)));
  }
}

TEST(PipelineSandboxTest, BehindARangeTheRootsAreReadThatItIsGiven) {
  internal::v1::PipelineBinding binding;
  binding.mutable_source()->mutable_range();
  EXPECT_THAT(PipelineSandbox(BindTo(), binding).readable, Not(Contains("/usr")));
  binding.mutable_resolved()->add_roots("/data");
  EXPECT_THAT(PipelineSandbox(BindTo(), binding).readable, Contains("/data"));
  EXPECT_THAT(PipelineSandbox(BindTo(), binding).readable, Not(Contains("/usr")));
  binding.mutable_resolved()->set_roots(0, "/");
  EXPECT_THAT(PipelineSandbox(BindTo(), binding).readable, Contains("/usr"));
}

TEST(PipelineSandboxTest, AMixtureReadsTheRootsOfItsSources) {
  internal::v1::PipelineBinding binding;
  auto& mixture = *binding.mutable_source()->mutable_mixture();
  mixture.add_sources()->mutable_source()->mutable_tfrecord();
  mixture.add_sources()->mutable_source()->mutable_range();
  binding.mutable_resolved()->add_mixed()->add_roots("/one");
  binding.mutable_resolved()->add_mixed();
  const SandboxOptions options = PipelineSandbox(BindTo(), binding);
  EXPECT_THAT(options.readable, Contains("/one"));
  EXPECT_THAT(options.readable, Not(Contains("/usr")));
}

TEST(PipelineSandboxTest, ManyThreadsAndSourcesMayHoldMoreFiles) {
  // Three caches, each with twice kManySegments to read and one to write.
  const uint64_t own = 128 + 3 * (2 * SegmentFolder::kManySegments + 1);
  EXPECT_EQ(PipelineSandbox(BindTo(1), Files()).max_files, own + 128);
  EXPECT_EQ(PipelineSandbox(BindTo(16), Files()).max_files, own + 16 * 128);
}

TEST(PipelineSandboxTest, GrowsNoFile) {
  EXPECT_EQ(PipelineSandbox(BindTo(), Files()).max_file_bytes, 0u);
  EXPECT_GT(IndexSandbox(internal::v1::BuildIndex()).max_file_bytes, 0u);
}

TEST(PipelineSandboxTest, OnlyWhatIsWantedIsOn) {
  const SandboxOptions options = PipelineSandbox(BindTo(), Files());
  EXPECT_TRUE(options.seccomp);
  EXPECT_FALSE(options.landlock);
  EXPECT_FALSE(options.capabilities);
}

TEST(IndexSandboxTest, ReadsTheRootsAndTheCacheAndNothingElse) {
  internal::v1::BuildIndex job;
  job.mutable_sandbox()->set_landlock(true);
  job.mutable_sandbox()->add_readable("/cache");
  EXPECT_THAT(IndexSandbox(job).readable, Contains("/usr"));
  job.add_roots("/data");
  const SandboxOptions options = IndexSandbox(job);
  EXPECT_TRUE(options.landlock);
  EXPECT_FALSE(options.seccomp);
  EXPECT_THAT(options.readable, testing::UnorderedElementsAre("/data", "/cache"));
}

}  // namespace
}  // namespace bulkhead
