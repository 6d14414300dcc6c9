#include "server/supervisor/worker/worker_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace bulkhead {
namespace {

constexpr char kName[] = "GLIBC_TUNABLES";

TEST(WorkerProgramTest, HugePagesAreAddedToTheTunablesOfTheUser) {
  unsetenv(kName);
  EXPECT_EQ(HugePagesInHeap(), "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1");
  setenv(kName, "glibc.malloc.check=1", 1);
  EXPECT_EQ(HugePagesInHeap(),
            "GLIBC_TUNABLES=glibc.malloc.check=1:glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1");
  unsetenv(kName);
}

TEST(WorkerProgramTest, WhatTheUserSaysOfHugePagesStays) {
  setenv(kName, "glibc.malloc.hugetlb=0", 1);
  EXPECT_EQ(HugePagesInHeap(), "GLIBC_TUNABLES=glibc.malloc.hugetlb=0");
  unsetenv(kName);
}

TEST(WorkerProgramTest, OfTheServicesEnvironmentAWorkerGetsWhatProgramsNeed) {
  setenv("BULKHEAD_TEST_SECRET_NOT", "1", 1);
  setenv("LC_TIME", "C", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  setenv("OMP_NUM_THREADS", "8", 1);
  const auto environment =
      WorkerEnvironment({"OMP_NUM_THREADS=1", "MINE=a=b", "OMP_NUM_THREADS=2"});
  EXPECT_THAT(environment, testing::IsSupersetOf({"BULKHEAD_TEST_SECRET_NOT=1", "LC_TIME=C",
                                                  "MINE=a=b", "OMP_NUM_THREADS=2"}));
  for (const std::string& entry : environment) {
    EXPECT_THAT(entry, testing::Not(testing::StartsWith("AWS_")));
    EXPECT_THAT(entry, testing::Not(testing::HasSubstr("OMP_NUM_THREADS=8")));
  }
}

}  // namespace
}  // namespace bulkhead
