// Writes what is declared of the options of specs as JSON, by field, and the words of other
// libraries that are answered, by message: bulkhead-option-limits > option_limits.json. The JSON
// Schema of specs and the Python client are generated from it. Part of the build.
//
//   {"bulkhead.v1.Batch.size": {"required": true, "least": 1, "most": 16777216,
//                               "zero": "is 0; it must lie between 1 and 16777216"}, …
//   "bulkhead.v1.Stage": {"foreign_words": {"centercrop": ["write `center_crop: {size: $0}`",
//   "224", "center_crop"], …}}, "foreign_options": {"names": {"p": "probability", …}}}
#include <cmath>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/spec/declared_options.h"
#include "server/spec/yaml/foreign_words.h"
#include "server/spec/yaml/yaml_scalar.h"

namespace bulkhead {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// More values than these are no choice.
constexpr int kMaxChoices = 8;
constexpr int kMaxChoice = 256;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

// The numbers or names that an option takes, where they are few.
std::vector<std::string> Choices(const Option& option, const FieldDescriptor& field) {
  std::vector<std::string> choices;
  if (option.only == nullptr) return choices;
  if (field.enum_type() != nullptr) {
    for (int i = 1; i < field.enum_type()->value_count(); ++i) {
      const auto& value = *field.enum_type()->value(i);
      if (option.only(value.number())) choices.push_back(Quoted(EnumTail(value)));
    }
    return choices;
  }
  for (int number = 0; number <= kMaxChoice; ++number) {
    if (option.only(number)) choices.push_back(absl::StrCat(number));
  }
  if (choices.size() > kMaxChoices) choices.clear();
  return choices;
}

std::string FieldJson(const OptionTable& table, const Option& option) {
  const FieldDescriptor& field = *table.message()->FindFieldByName(option.name);
  std::vector<std::string> parts;
  const auto add = [&](const char* key, const auto& value) {
    parts.push_back(absl::StrCat("\"", key, "\": ", value));
  };
  if (!option.needs.empty()) add("required", "true");
  if (std::isfinite(option.least)) {
    add(option.is_above_least ? "above" : "least", absl::StrFormat("%.17g", option.least));
  }
  if (std::isfinite(option.most)) add("most", absl::StrFormat("%.17g", option.most));
  if (option.is_range) add("pair", "true");
  if (option.one_stands_for > 1) add("one_stands_for", option.one_stands_for);
  if (option.most_count < (1 << 16)) {
    add("least_count", option.least_count);
    add("most_count", option.most_count);
  }
  const std::vector<std::string> choices = Choices(option, field);
  if (!choices.empty()) add("values", absl::StrCat("[", absl::StrJoin(choices, ", "), "]"));
  const bool plain = !field.is_repeated() && !field.has_presence() &&
                     field.cpp_type() != FieldDescriptor::CPPTYPE_STRING &&
                     field.cpp_type() != FieldDescriptor::CPPTYPE_BOOL &&
                     field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM;
  const std::string zero = plain ? table.ProblemOfZero(option.name) : "";
  if (!zero.empty()) add("zero", "\"" + zero + "\"");
  if (parts.empty()) return "";
  return absl::StrCat("  \"", field.full_name(), "\": {", absl::StrJoin(parts, ", "), "}");
}

// Empty: none are known for `message`.
std::string WordsJson(const Descriptor& message) {
  std::vector<std::string> words;
  for (const ForeignWord& word : ForeignWords(message)) {
    words.push_back(absl::StrCat(Quoted(word.word), ": [", Quoted(word.sentence), ", ",
                                 Quoted(word.example), ", ", Quoted(word.stage), "]"));
  }
  if (words.empty()) return "";
  return absl::StrCat("  \"", message.full_name(), "\": {\"foreign_words\": {",
                      absl::StrJoin(words, ", "), "}}");
}

std::string OptionNamesJson() {
  const auto pair = [](std::string* out, const auto& names) {
    absl::StrAppend(out, Quoted(names.first), ": ", Quoted(names.second));
  };
  return absl::StrCat("  \"foreign_options\": {\"names\": {",
                      absl::StrJoin(ForeignOptionNames(), ", ", pair), "}}");
}

// Those of `message` and of every message below it.
void AddMessage(const Descriptor* message, std::set<const Descriptor*>& seen,
                std::set<std::string>& lines) {
  if (!seen.insert(message).second) return;
  if (const std::string words = WordsJson(*message); !words.empty()) lines.insert(words);
  if (const OptionTable* const table = DeclaredOptions(message); table != nullptr) {
    for (const Option& option : table->options()) {
      const std::string line = FieldJson(*table, option);
      if (!line.empty()) lines.insert(line);
    }
  }
  for (int i = 0; i < message->field_count(); ++i) {
    const Descriptor* const below = message->field(i)->message_type();
    if (below != nullptr) AddMessage(below, seen, lines);
  }
}

}  // namespace
}  // namespace bulkhead

int main() {
  std::set<const google::protobuf::Descriptor*> seen;
  std::set<std::string> lines = {bulkhead::OptionNamesJson()};
  bulkhead::AddMessage(bulkhead::v1::PipelineSpec::descriptor(), seen, lines);
  std::cout << "{\n" << absl::StrJoin(lines, ",\n") << "\n}\n";
  return 0;
}
