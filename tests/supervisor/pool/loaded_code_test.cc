#include "server/supervisor/pool/loaded_code.h"

#include <gtest/gtest.h>

#include "server/arena/code_files.h"
#include "server/base/error.h"

namespace bulkhead {
namespace {

LoadedCode::Files Files(const std::vector<std::pair<std::string, std::string>>& digests) {
  LoadedCode::Files files;
  for (const auto& [name, digest] : digests) {
    files.Add()->set_name(name);
    files.rbegin()->set_digest(digest);
  }
  return files;
}

LoadedCode Heard(std::vector<std::string>& names) {
  return LoadedCode([&](const v1::CodeFile& file) { names.push_back(file.name()); });
}

TEST(LoadedCodeTest, TheFirstWorkersFilesAreToldSorted) {
  LoadedCode code([](const v1::CodeFile&) {});
  std::vector<v1::CodeFile> told;
  code.WhenKnown([&](const auto& files) { told = files.value(); });
  EXPECT_TRUE(told.empty());
  ASSERT_TRUE(code.Note(Files({{"b.py", "2"}, {"a.py", "1"}, {"c.py", "3"}})).ok());
  code.OnBound({"b.py", "a.py"});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].name(), "a.py");
  EXPECT_EQ(told[0].digest(), "1");
  code.OnBound({"c.py"});
  told.clear();
  code.WhenKnown([&](const auto& files) { told = files.value(); });
  EXPECT_EQ(told.size(), 2u) << "those of the first";
  ASSERT_EQ(code.files().size(), 3u);
  EXPECT_EQ(code.files()[2].digest(), "3");
}

TEST(LoadedCodeTest, TwoContentsOfOneFileAreAnError) {
  std::vector<std::string> names;
  LoadedCode code = Heard(names);
  EXPECT_TRUE(code.Note(Files({{"a.py", "1"}})).ok());
  EXPECT_TRUE(code.Note(Files({{"a.py", "1"}, {"b.py", "2"}})).ok());
  EXPECT_EQ(names, (std::vector<std::string>{"a.py", "b.py"})) << "each once";
  const absl::Status changed = code.Note(Files({{"b.py", "3"}}));
  EXPECT_EQ(GetErrorInfo(changed)->reason, reason::kCodeChanged);
  EXPECT_TRUE(code.DiffersFrom({Files({{"a.py", "4"}})[0]}));
  EXPECT_FALSE(code.DiffersFrom({Files({{"other.py", "4"}})[0]}));
}

TEST(LoadedCodeTest, AFailureIsToldInstead) {
  LoadedCode code([](const v1::CodeFile&) {});
  absl::Status told;
  code.WhenKnown([&](const auto& files) { told = files.status(); });
  code.Fail(absl::AbortedError("crash loop"));
  EXPECT_EQ(told.message(), "crash loop");
  code.Fail(absl::AbortedError("another"));
  code.WhenKnown([&](const auto& files) { told = files.status(); });
  EXPECT_EQ(told.message(), "crash loop") << "the first one";
}

TEST(LoadedCodeTest, KeepsABoundedNumberOfFilesWithNamesOfFiles) {
  LoadedCode code([](const v1::CodeFile&) {});
  EXPECT_EQ(GetErrorInfo(code.Note(Files({{"../etc/passwd", "1"}})))->reason,
            reason::kStageUnusable);
  EXPECT_FALSE(code.Note(Files({{"a.py", "\033[2J"}})).ok());
  EXPECT_FALSE(code.Note(Files({{"a.py", std::string(17, 'a')}})).ok());
  for (size_t i = 0; i < kMostCodeFiles; ++i) {
    ASSERT_TRUE(code.Note(Files({{"f" + std::to_string(i) + ".py", "1"}})).ok());
  }
  EXPECT_TRUE(code.Note(Files({{"f0.py", "1"}})).ok()) << "it is known";
  EXPECT_EQ(GetErrorInfo(code.Note(Files({{"more.py", "1"}})))->reason, reason::kStageUnusable);
  EXPECT_EQ(code.digests().size(), kMostCodeFiles);
}

}  // namespace
}  // namespace bulkhead
