#include "client/cpp/internal/spec/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "bulkhead/error.h"
#include "client/cpp/internal/spec/utf8.h"
#include "server/base/utf8.h"
#include "tests/support/test_dir.h"

namespace bulkhead::client_internal {
namespace {

using testing::HasSubstr;

// The error of a spec that cannot be sent.
absl::Status Refusal(const SpecSource& source) {
  const auto input = ToSpecInput(source);
  EXPECT_FALSE(input.ok());
  EXPECT_EQ(input.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorReason(input.status()), "SPEC_INVALID");
  return input.status();
}

class SpecTest : public testing::Test {
 protected:
  const TestDir dir_;
  const std::string folder_ = dir_.path();
};

TEST_F(SpecTest, TextThatIsNotUtf8IsRefusedAndItsPlaceNamed) {
  EXPECT_THAT(std::string(Refusal(SpecText("name: \xe4")).message()),
              HasSubstr("spec.text is not UTF-8: byte 0xe4 at offset 6"));
  const std::string path = folder_ + "/spec.yaml";
  std::ofstream(path) << "a: \xc3\xa4\nb: \xc3";
  EXPECT_THAT(std::string(Refusal(SpecFile(path)).message()),
              HasSubstr(absl::StrCat("the spec ", path, " is not UTF-8: byte 0xc3 at offset 9")));
}

TEST_F(SpecTest, NamesThatAreNotUtf8AreRefusedByField) {
  const std::string path = folder_ + "/\xff.yaml";
  std::ofstream(path) << "{}";
  const absl::Status of_path = Refusal(SpecFile(path));
  EXPECT_THAT(std::string(of_path.message()), HasSubstr("spec.path is not UTF-8: byte 0xff at"));
  EXPECT_EQ(ErrorMetadata(of_path).at("offset"), absl::StrCat(folder_.size() + 1));
  SpecSource source = SpecText("{}");
  source.base_dir = "/data/\xff";
  EXPECT_THAT(std::string(Refusal(source).message()),
              HasSubstr("spec.base_dir is not UTF-8: byte 0xff at offset 6"));
}

TEST_F(SpecTest, TextsOfAllLanguagesAreSent) {
  const auto input = ToSpecInput(SpecText("# \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 \xc3\xa4"));
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_FALSE(input->SerializeAsString().empty());
}

// But for the byte zero, which is UTF-8.
TEST(Utf8Test, IsWhatTheServiceTakesForText) {
  std::string text(5, 'x');
  const unsigned char continued[] = {0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0};
  for (int lead = 1; lead < 256; ++lead) {
    for (const unsigned char second : continued) {
      for (const unsigned char third : continued) {
        for (const unsigned char fourth : continued) {
          text[1] = static_cast<char>(lead);
          text[2] = static_cast<char>(second);
          text[3] = static_cast<char>(third);
          text[4] = static_cast<char>(fourth);
          for (size_t size = 2; size <= 5; ++size) {
            const absl::string_view part = absl::string_view(text).substr(0, size);
            ASSERT_EQ(FirstByteThatIsNotUtf8(part), FirstByteThatIsNoText(part)) << lead;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace bulkhead::client_internal
