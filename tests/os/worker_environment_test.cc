#include "server/os/process/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace bulkhead {
namespace {

TEST(WorkerEnvironmentTest, OfTheServicesEnvironmentAWorkerGetsWhatProgramsNeed) {
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

TEST(WorkerEnvironmentTest, WhatIsAskedForIsPassedOnOrSet) {
  setenv("AWS_PROFILE", "mine", 1);
  setenv("BULKHEAD_WORKER_ENV", "AWS_PROFILE,ABSENT_HERE", 1);
  EXPECT_THAT(*AskedEnvironment({"SET=1"}), testing::ElementsAre("AWS_PROFILE=mine", "SET=1"));
  unsetenv("BULKHEAD_WORKER_ENV");
  EXPECT_THAT(*AskedEnvironment({}), testing::IsEmpty());
  EXPECT_EQ(AskedEnvironment({"=1"}).status().message(),
            "--worker-env =1: write NAME, or NAME=VALUE");
}

}  // namespace
}  // namespace bulkhead
