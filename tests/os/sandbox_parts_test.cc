#include "server/os/sandbox/sandbox_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bulkhead {
namespace {

TEST(SandboxPartsTest, AllNoneOrAList) {
  const auto parts = [](const char* text) {
    const SandboxOptions options = *ParseSandboxParts(text);
    return std::vector<bool>{options.seccomp, options.landlock, options.capabilities};
  };
  EXPECT_THAT(parts("all"), testing::ElementsAre(true, true, true));
  EXPECT_THAT(parts("none"), testing::ElementsAre(false, false, false));
  EXPECT_THAT(parts("landlock"), testing::ElementsAre(false, true, false));
  EXPECT_THAT(parts("seccomp,capabilities"), testing::ElementsAre(true, false, true));
}

TEST(SandboxPartsTest, AnotherPartIsRefused) {
  EXPECT_THAT(std::string(ParseSandboxParts("seccomp,walls").status().message()),
              testing::HasSubstr("--sandbox seccomp,walls: there is no part 'walls'"));
}

}  // namespace
}  // namespace bulkhead
