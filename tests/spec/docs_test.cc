// The reference pages say what the code does: their examples are read, their lists are complete.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "server/base/element_type.h"
#include "server/spec/signature.h"
#include "server/spec/yaml/yaml.h"
#include "server/spec/yaml/yaml_scalar.h"

namespace bulkhead {
namespace {

using ::testing::HasSubstr;

std::string SourcePath(absl::string_view name) {
  const char* root = std::getenv("BULKHEAD_SOURCE_DIR");
  return absl::StrCat(root == nullptr ? "." : root, "/", name);
}

std::string ReadFile(const std::string& name) {
  std::ifstream file(SourcePath(name));
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name << " cannot be read; run this through ctest";
  return text.str();
}

// The pages of all families of stages.
std::string ReadStagePages() {
  std::string text;
  for (const auto& page : std::filesystem::directory_iterator(SourcePath("docs/stages"))) {
    text += ReadFile("docs/stages/" + page.path().filename().string());
  }
  return text;
}

// A fragment of a spec, completed to a whole spec.
std::string Completed(const std::string& fragment) {
  if (absl::StrContains(fragment, "batch:")) return fragment;
  std::string text = absl::StrCat(fragment, "batch: {size: 2}\n");
  if (absl::StartsWith(fragment, "- pad_rows")) {
    return absl::StrCat("source: {tfrecord: {files: a}}\nbatch: {size: 2}\n",
                        "features: {boxes: {float: {shape: [-1, 4], max_count: 9}}, ",
                        "labels: {int64: {shape: [-1], max_count: 9}}}\nstages:\n", fragment);
  }
  if (absl::StartsWith(fragment, "- ")) {
    return absl::StrCat("source: {image_folder: {path: p}}\nbatch: {size: 2}\n",
                        "stages:\n- decode_image\n- resize: {size: 8}\n", fragment);
  }
  if (absl::StartsWith(fragment, "features:")) {
    return absl::StrCat(text, "source: {tfrecord: {files: a}}\noutputs: [label, boxes]\n");
  }
  if (absl::StartsWith(fragment, "filter:")) {
    return text + "source: {tfrecord: {files: a}}\nfeatures: {label: int64, score: float}\n";
  }
  if (absl::StartsWith(fragment, "split:") || absl::StartsWith(fragment, "exclude:")) {
    return text + "source: {range: {size: 10}}\n";
  }
  if (absl::StartsWith(fragment, "stages:")) return text + "source: {image_folder: {path: p}}\n";
  if (absl::StrContains(fragment, "tfrecord:")) return text + "features: {label: int64}\n";
  return text + "outputs: path\n";
}

TEST(SpecPageTest, ItsExamplesAreValid) {
  const std::pair<std::string, std::string> pages[] = {
      {"docs/spec.md", ReadFile("docs/spec.md")},
      {"docs/stages", ReadStagePages()},
      {"docs/detection.md", ReadFile("docs/detection.md")}};
  for (const auto& [page, text] : pages) {
    const std::vector<std::string> parts = absl::StrSplit(text, absl::ByString("```"));
    int examples = 0;
    for (const std::string& part : parts) {
      if (!absl::StartsWith(part, "yaml\n")) continue;
      ++examples;
      const auto spec = ParseSpec(Completed(part.substr(5)), page);
      EXPECT_TRUE(spec.ok()) << spec.status() << "\n" << Completed(part.substr(5));
    }
    EXPECT_GE(examples, 2) << page;
  }
}

void ExpectDescribed(const google::protobuf::Descriptor& type, const std::string& page,
                     std::set<std::string>& seen) {
  if (!seen.insert(type.full_name()).second) return;  // a mixture holds sources
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    EXPECT_TRUE(absl::StrContains(page, field.name())) << field.full_name();
    if (field.enum_type() != nullptr) {
      for (int v = 1; v < field.enum_type()->value_count(); ++v) {
        const std::string tail = EnumTail(*field.enum_type()->value(v));
        EXPECT_TRUE(absl::StrContains(absl::AsciiStrToLower(page), absl::StrCat("`", tail)))
            << field.full_name() << ": " << tail;
      }
    }
    const google::protobuf::Descriptor* inner =
        field.is_map() ? field.message_type()->map_value()->message_type() : field.message_type();
    if (inner != nullptr) ExpectDescribed(*inner, page, seen);
  }
}

TEST(SpecPageTest, DescribesEveryFieldAndValue) {
  std::set<std::string> seen;
  ExpectDescribed(*v1::PipelineSpec::descriptor(), ReadFile("docs/spec.md") + ReadStagePages(),
                  seen);
}

TEST(ExampleSpecsTest, AreValid) {
  for (const std::string name : {"mixture.yaml", "detection.yaml"}) {
    const auto spec = ParseSpec(ReadFile("examples/specs/" + name), name);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto signature = InferSignature(*spec);
    EXPECT_TRUE(signature.ok()) << name << signature.status();
  }
}

// What docs/detection.md says comes out.
TEST(DetectionPageTest, NamesTheOutputsOfItsSpec) {
  const std::string page = ReadFile("docs/detection.md");
  const std::vector<std::string> parts = absl::StrSplit(page, absl::ByString("```"));
  const auto spec = ParseSpec(parts[1].substr(5), "detection.md");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto signature = InferSignature(*spec);
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->schema.tensors_size(), 5);
  for (const v1::TensorSchema& tensor : signature->schema.tensors()) {
    std::vector<int64_t> shape = {static_cast<int64_t>(signature->schema.batch_size())};
    shape.insert(shape.end(), tensor.shape().begin(), tensor.shape().end());
    EXPECT_THAT(
        page, HasSubstr(absl::StrCat("| `", tensor.name(), "` | ", DTypeName(tensor.dtype()), " [",
                                     absl::StrJoin(shape, ", "), "] |")));
  }
}

TEST(ErrorsPageTest, ListsEveryReason) {
  const std::string header = ReadFile("server/base/error.h");
  const std::string page = ReadFile("docs/errors.md");
  const std::regex reason("string_view k[A-Za-z]+ = \"([A-Z_]+)\"");
  int reasons = 0;
  for (std::sregex_iterator it(header.begin(), header.end(), reason), end; it != end; ++it) {
    ++reasons;
    EXPECT_THAT(page, HasSubstr(absl::StrCat("| `", (*it)[1].str(), "` |")));
  }
  EXPECT_GE(reasons, 30);
}

}  // namespace
}  // namespace bulkhead
