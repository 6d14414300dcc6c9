#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/cache/segment.h"
#include "server/os/files/fd.h"
#include "tests/support/test_dir.h"

namespace bulkhead {

// A folder that goes with the test, and segments in it.
class CacheFixture : public testing::Test {
 protected:
  std::string Path(absl::string_view name) const { return absl::StrCat(folder_, "/", name); }

  static UniqueFd OpenFile(const std::string& path) {
    return UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }

  UniqueFd MakeSegment(uint64_t bytes, absl::string_view name = "s") const {
    UniqueFd fd = OpenFile(Path(name));
    EXPECT_TRUE(Segment::Format(fd.get(), bytes).ok());
    return fd;
  }

  static StoreKey Key(uint64_t number) { return {{number, number * 7}}; }
  static std::string Value(uint64_t number, size_t bytes) {
    std::string value(bytes, static_cast<char>('a' + number % 26));
    return absl::StrCat(number, " ", value);
  }

  const TestDir dir_;
  const std::string folder_ = dir_.path();
};

}  // namespace bulkhead
