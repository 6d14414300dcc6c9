#include "server/supervisor/worker/worker_program.h"

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

}  // namespace
}  // namespace bulkhead
