#include "server/supervisor/worker/python_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace bulkhead {
namespace {

// As CPython 3.9 to 3.14 write it.
constexpr char kDump[] = R"(Thread 0x00007f2b5a7fc640 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f2b5affd640 [Thread-1] (most recent call first):
  File "/data/python/augment.py", line 7 in blur
  File "/data/python/augment.py", line 21 in augment
  File "/opt/lib/bulkhead/bulkhead_host/stage.py", line 95 in run
  File "/opt/lib/bulkhead/bulkhead_host/calls.py", line 60 in call

Current thread 0x00007f2b5c1d4740 (most recent call first):
  File "/opt/lib/bulkhead/worker_host.py", line 83 in main
  File "/opt/lib/bulkhead/worker_host.py", line 95 in <module>
)";

TEST(PythonStackTest, NamesWhereTheFunctionIsInTheThreadThatTheWorkerCalled) {
  EXPECT_EQ(DescribePythonStack(kDump),
            "/data/python/augment.py:7 in blur; called from /data/python/augment.py:21 in augment");
}

TEST(PythonStackTest, TheClientsOwnModulesEndTheStackAndTheUsersFoldersDoNot) {
  constexpr char kStack[] = R"(Thread 0x1 (most recent call first):
  File "/home/me/bulkhead/datasets/photos.py", line 3 in __getitem__
  File "/home/me/lib/bulkhead/datasets/base.py", line 5 in read
  File "/opt/lib/bulkhead/datasets/bulkhead_dataset.py", line 88 in at
  File "/opt/lib/bulkhead/bulkhead_host/calls.py", line 60 in call
)";
  EXPECT_EQ(DescribePythonStack(kStack),
            "/home/me/bulkhead/datasets/photos.py:3 in __getitem__; called from "
            "/home/me/lib/bulkhead/datasets/base.py:5 in read");
}

TEST(PythonStackTest, OfACrashOnlyTheCurrentThreadCounts) {
  EXPECT_EQ(DescribeCrashedStack(kDump), "");
  const std::string crashed =
      absl::StrReplaceAll(kDump, {{"Current thread", "Thread"},
                                  {"Thread 0x00007f2b5affd640 [Thread-1]", "Current thread 0x1"}});
  EXPECT_THAT(DescribeCrashedStack(crashed), testing::StartsWith("/data/python/augment.py:7 in"));
}

TEST(PythonStackTest, WaitsForTheWholeOfThatThread) {
  const absl::string_view dump = kDump;
  const size_t end = dump.find("in call\n");
  ASSERT_NE(end, absl::string_view::npos);
  for (size_t length = 0; length <= end + 7; ++length) {
    EXPECT_EQ(DescribePythonStack(dump.substr(0, length)), "") << length;
  }
  EXPECT_NE(DescribePythonStack(dump.substr(0, end + 8)), "");
}

TEST(PythonStackTest, DeepStacksAreCut) {
  std::string dump = "Thread 0x1 (most recent call first):\n";
  for (int i = 0; i < 50; ++i) absl::StrAppend(&dump, "  File \"a.py\", line ", i, " in f\n");
  absl::StrAppend(&dump, "  File \"/x/bulkhead_host/calls.py\", line 60 in call\n");
  const std::string stack = DescribePythonStack(dump);
  EXPECT_EQ(stack.find("a.py:0 in f; called from a.py:1 in f"), 0);
  EXPECT_EQ(stack.find("a.py:6 "), std::string::npos);
}

TEST(PythonStackTest, WhateverTheWorkerWroteTheTextIsShortAndPrintable) {
  EXPECT_EQ(DescribePythonStack("nonsense\n\xff\n"), "");
  const std::string dump = absl::StrCat("  File \"\x1b[31m\xff", std::string(5000, 'a'),
                                        "\", line 1 in f\n  File \"/x/bulkhead_host/calls.py\", "
                                        "line 60 in call\n");
  const std::string stack = DescribePythonStack(dump);
  EXPECT_EQ(stack.size(), kMaxPythonStackBytes);
  for (const char c : stack) EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

}  // namespace
}  // namespace bulkhead
