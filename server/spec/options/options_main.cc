// Writes all that is known of the options of specs as JSON, by message: bulkhead-options
// DESCRIPTORS > options.json, where DESCRIPTORS is what `protoc --include_source_info
// --include_imports --descriptor_set_out` made of pipeline.proto. It joins the comments of the
// messages with what is declared (default, range, required). The documentation, the JSON Schema of
// specs and the Python client are generated from it. Part of the build.
//
//   {"bulkhead.v1.Posterize": {
//      "family": "color", "meaning": "Keeps …",
//      "options": [{"name": "bits", "meaning": "How many …", "allowed": "1 to 8",
//                   "required": true, "default": "", "least": 1, "most": 8,
//                   "zero": "is 0; it must lie between 1 and 8"}, …]}, …
//    "bulkhead.v1.Stage": {…, "foreign_words": {
//      "centercrop": ["write `center_crop: {size: $0}`", "224", "center_crop"], …},
//      "foreign_names": {"p": "probability", …}}}
//
// Only stages have a `family`.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "google/protobuf/descriptor.pb.h"
#include "server/spec/declared_options.h"
#include "server/spec/yaml/foreign_words.h"
#include "server/spec/yaml/yaml_scalar.h"
#include "server/stages/declaration/families.h"

namespace bulkhead {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::ListValue;
using google::protobuf::Struct;

// More values than these are no choice.
constexpr int kMaxChoices = 8;
constexpr int kMaxChoice = 256;

void Set(Struct& object, const std::string& key, absl::string_view text) {
  (*object.mutable_fields())[key].set_string_value(std::string(text));
}
void SetNumber(Struct& object, const std::string& key, double number) {
  (*object.mutable_fields())[key].set_number_value(number);
}
void SetTrue(Struct& object, const std::string& key) {
  (*object.mutable_fields())[key].set_bool_value(true);
}

// The comments above messages and fields, by full name, in one line each.
std::map<std::string, std::string> Comments(const google::protobuf::FileDescriptorSet& files) {
  std::map<std::string, std::string> comments;
  for (const auto& file : files.file()) {
    for (const auto& place : file.source_code_info().location()) {
      const auto& path = place.path();
      if (path.size() < 2 ||
          path[0] != google::protobuf::FileDescriptorProto::kMessageTypeFieldNumber)
        continue;
      const auto& message = file.message_type(path[1]);
      std::string name = absl::StrCat(file.package(), ".", message.name());
      if (path.size() == 4 && path[2] == google::protobuf::DescriptorProto::kFieldFieldNumber) {
        absl::StrAppend(&name, ".", message.field(path[3]).name());
      } else if (path.size() != 2) {
        continue;
      }
      const std::vector<std::string> words =
          absl::StrSplit(place.leading_comments(), absl::ByAnyChar(" \n"), absl::SkipEmpty());
      comments[name] = absl::StrJoin(words, " ");
    }
  }
  return comments;
}

// "36,000,000", "0.5".
std::string Spelled(double number) {
  if (number != std::trunc(number) || std::abs(number) < 10'000) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", number);
    const std::string shorter = absl::StrCat(number);
    return std::stod(shorter) == number ? shorter : text;
  }
  std::string digits = absl::StrCat(static_cast<int64_t>(number));
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<size_t>(i), 1, ',');
  return digits;
}

std::string EnumName(const FieldDescriptor& field, int number) {
  return absl::StrCat("`", EnumTail(*field.enum_type()->FindValueByNumber(number)), "`");
}

std::string DefaultText(const Option& option, const FieldDescriptor& field) {
  if (!option.otherwise.empty()) return option.otherwise;
  if (!option.default_name.empty()) return absl::StrCat("`", option.default_name, "`");
  if (option.defaults.empty()) {
    return field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL ? "false" : "none";
  }
  if (field.enum_type() != nullptr) {
    return EnumName(field, static_cast<int>(option.defaults[0]));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return option.defaults[0] != 0 ? "true" : "false";
  }
  const std::string numbers =
      absl::StrJoin(option.defaults, ", ",
                    [](std::string* out, double number) { absl::StrAppend(out, Spelled(number)); });
  return option.defaults.size() > 1 ? absl::StrCat("[", numbers, "]") : numbers;
}

// "1 to 8", "above 0, at most 1000", "`nearest`, `linear`"; empty where the type says it all.
std::string AllowedText(const Option& option, const FieldDescriptor& field) {
  if (field.enum_type() != nullptr) {
    std::vector<std::string> names;
    for (int i = 1; i < field.enum_type()->value_count(); ++i) {
      const int number = field.enum_type()->value(i)->number();
      if (option.only == nullptr || option.only(number)) names.push_back(EnumName(field, number));
    }
    return absl::StrJoin(names, ", ");
  }
  const bool has_most = std::isfinite(option.most);
  if (std::isfinite(option.least) && has_most && !option.is_above_least) {
    return absl::StrCat(Spelled(option.least), " to ", Spelled(option.most));
  }
  std::vector<std::string> limits;
  const bool any_count =
      option.least == 1 && !option.is_above_least && !has_most;  // goes without saying
  if (std::isfinite(option.least) && !any_count) {
    limits.push_back(
        absl::StrCat(option.is_above_least ? "above " : "at least ", Spelled(option.least)));
  }
  if (has_most) limits.push_back(absl::StrCat("at most ", Spelled(option.most)));
  if (option.least_count == 0 && option.most_count < 1000) {
    limits.push_back(absl::StrCat("at most ", option.most_count));
  }
  return absl::StrJoin(limits, ", ");
}

// The numbers or names that an option takes, where they are few.
ListValue Choices(const Option& option, const FieldDescriptor& field) {
  ListValue choices;
  if (option.only == nullptr) return choices;
  if (field.enum_type() != nullptr) {
    for (int i = 1; i < field.enum_type()->value_count(); ++i) {
      const auto& value = *field.enum_type()->value(i);
      if (option.only(value.number())) choices.add_values()->set_string_value(EnumTail(value));
    }
    return choices;
  }
  for (int number = 0; number <= kMaxChoice; ++number) {
    if (option.only(number)) choices.add_values()->set_number_value(number);
  }
  if (choices.values_size() > kMaxChoices) choices.Clear();
  return choices;
}

// What a program needs to know of an option's values.
void AddLimits(const OptionTable& table, const Option& option, const FieldDescriptor& field,
               Struct& out) {
  if (std::isfinite(option.least)) {
    SetNumber(out, option.is_above_least ? "above" : "least", option.least);
  }
  if (std::isfinite(option.most)) SetNumber(out, "most", option.most);
  if (option.is_range) SetTrue(out, "pair");
  if (option.one_stands_for > 1) SetNumber(out, "one_stands_for", option.one_stands_for);
  if (option.most_count < (1 << 16)) {
    SetNumber(out, "least_count", option.least_count);
    SetNumber(out, "most_count", option.most_count);
  }
  const ListValue choices = Choices(option, field);
  if (!choices.values().empty()) *(*out.mutable_fields())["values"].mutable_list_value() = choices;
  const bool plain = !field.is_repeated() && !field.has_presence() &&
                     field.cpp_type() != FieldDescriptor::CPPTYPE_STRING &&
                     field.cpp_type() != FieldDescriptor::CPPTYPE_BOOL &&
                     field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM;
  const std::string zero = plain ? table.ProblemOfZero(option.name) : "";
  if (!zero.empty()) Set(out, "zero", zero);
}

Struct OptionOf(const OptionTable* table, const FieldDescriptor& field,
                const std::string& meaning) {
  const Option* const declared = table == nullptr ? nullptr : table->Find(field.name());
  const Option option = declared == nullptr ? Option(field.name()) : *declared;
  // Where the comment explains the values itself, they are not listed once more.
  const std::string allowed = AllowedText(option, field);
  const std::vector<std::string> first = absl::StrSplit(allowed, ',');
  const bool told = field.enum_type() != nullptr && absl::StrContains(meaning, first[0]);
  const bool required = !option.needs.empty();
  Struct out;
  Set(out, "name", field.name());
  Set(out, "meaning", meaning);
  Set(out, "allowed", told ? "" : allowed);
  (*out.mutable_fields())["required"].set_bool_value(required);
  Set(out, "default", required ? "" : DefaultText(option, field));
  if (declared != nullptr) AddLimits(*table, option, field, out);
  return out;
}

// Of `message` and of every message below it.
class OptionsWriter {
 public:
  explicit OptionsWriter(const google::protobuf::FileDescriptorSet& files)
      : comments_(Comments(files)) {
    for (const auto& family : kStageFamilies) {
      for (const auto& kind : family.kinds()) families_[kind->options().message()] = family.name;
    }
  }

  void Add(const Descriptor* message) {
    if (!seen_.insert(message).second) return;
    if (!message->options().map_entry()) *Field(all_, message->full_name()) = Of(*message);
    for (int i = 0; i < message->field_count(); ++i) {
      const Descriptor* const below = message->field(i)->message_type();
      if (below != nullptr) Add(below);
    }
  }

  const Struct& all() const { return all_; }

 private:
  static Struct* Field(Struct& object, const std::string& key) {
    return (*object.mutable_fields())[key].mutable_struct_value();
  }

  Struct Of(const Descriptor& message) {
    Struct out;
    if (const auto family = families_.find(&message); family != families_.end()) {
      Set(out, "family", family->second);
    }
    Set(out, "meaning", comments_[message.full_name()]);
    ListValue& options = *(*out.mutable_fields())["options"].mutable_list_value();
    for (int i = 0; i < message.field_count(); ++i) {
      const FieldDescriptor& field = *message.field(i);
      *options.add_values()->mutable_struct_value() =
          OptionOf(DeclaredOptions(&message), field, comments_[field.full_name()]);
    }
    for (const auto& [word, advice] : ForeignWords(message)) {
      ListValue& said =
          *(*Field(out, "foreign_words")->mutable_fields())[word].mutable_list_value();
      for (const char* const part : {advice.sentence, advice.example, advice.stage}) {
        said.add_values()->set_string_value(part);
      }
    }
    if (&message == v1::Stage::descriptor()) {
      for (const auto& [there, here] : ForeignOptionNames()) {
        Set(*Field(out, "foreign_names"), there, here);
      }
    }
    return out;
  }

  std::map<std::string, std::string> comments_;
  std::map<const Descriptor*, std::string> families_;
  std::set<const Descriptor*> seen_;
  Struct all_;
};

}  // namespace
}  // namespace bulkhead

int main(int argc, char** argv) {
  google::protobuf::FileDescriptorSet files;
  std::ifstream input(argc == 2 ? argv[1] : "", std::ios::binary);
  if (!files.ParseFromIstream(&input)) {
    std::cerr << "usage: bulkhead-options DESCRIPTORS, a set of descriptors with source info\n";
    return 2;
  }
  bulkhead::OptionsWriter writer(files);
  writer.Add(bulkhead::v1::PipelineSpec::descriptor());
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(writer.all(), &json);
  if (!status.ok()) {
    std::cerr << status.ToString() << "\n";
    return 1;
  }
  std::cout << json << "\n";
  return 0;
}
