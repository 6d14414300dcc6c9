#include "server/stages/declaration/stage_table.h"

#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/stages/declaration/batch_kind.h"
#include "server/stages/declaration/stage_kind.h"

namespace bulkhead {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

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

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
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
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, ",");
  return digits;
}

std::string EnumName(const FieldDescriptor& field, int number) {
  const auto& type = *field.enum_type();
  const size_t prefix = type.value(0)->name().size() - std::string("UNSPECIFIED").size();
  return absl::StrCat(
      "`", absl::AsciiStrToLower(type.FindValueByNumber(number)->name().substr(prefix)), "`");
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

// "1 to 8", "above 0, at most 1000", "`nearest`, `linear`"; empty if the type allows nothing else.
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
  const bool any_count = option.least == 1 && !option.is_above_least && !has_most;  // obvious
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

std::string OptionJson(const OptionTable& table, const FieldDescriptor& field,
                       const std::string& meaning) {
  const Option* const declared = table.Find(field.name());
  const Option option = declared == nullptr ? Option(field.name()) : *declared;
  const bool required = !option.needs.empty();
  // If the comment explains the values, they are not listed again.
  const std::string allowed = AllowedText(option, field);
  const std::vector<std::string> first = absl::StrSplit(allowed, ',');
  const bool told = field.enum_type() != nullptr && absl::StrContains(meaning, first[0]);
  return absl::StrCat("{\"name\": ", Quoted(field.name()), ", \"meaning\": ", Quoted(meaning),
                      ", \"allowed\": ", Quoted(told ? "" : allowed),
                      ", \"required\": ", required ? "true" : "false",
                      ", \"default\": ", Quoted(required ? "" : DefaultText(option, field)), "}");
}

// The stages of `choice`, v1::Stage or v1::BatchStage. `table_of` gives the options of each.
template <typename Stage, typename TableOf>
absl::Status AddStages(const std::map<std::string, std::string>& comments, TableOf table_of,
                       std::map<std::string, std::string>& stages) {
  for (int i = 0; i < Stage::descriptor()->field_count(); ++i) {
    const FieldDescriptor& choice = *Stage::descriptor()->field(i);
    const Descriptor& message = *choice.message_type();
    Stage stage;
    stage.GetReflection()->MutableMessage(&stage, &choice);
    const OptionTable& table = table_of(stage);
    const auto meaning = comments.find(message.full_name());
    if (meaning == comments.end()) return absl::NotFoundError(message.full_name());
    std::vector<std::string> options;
    for (int j = 0; j < message.field_count(); ++j) {
      const FieldDescriptor& field = *message.field(j);
      options.push_back("    " + OptionJson(table, field, comments.at(field.full_name())));
    }
    stages[message.name()] = absl::StrCat(
        "{\"stage\": ", Quoted(choice.name()), ", \"meaning\": ", Quoted(meaning->second),
        ", \"options\": [\n", absl::StrJoin(options, ",\n"), "]}");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> StageTableJson(const google::protobuf::FileDescriptorSet& files) {
  const std::map<std::string, std::string> comments = Comments(files);
  std::map<std::string, std::string> stages;
  absl::Status status = AddStages<v1::Stage>(
      comments,
      [](const v1::Stage& stage) -> const OptionTable& { return KindOf(stage)->options(); },
      stages);
  status.Update(AddStages<v1::BatchStage>(
      comments,
      [](const v1::BatchStage& stage) -> const OptionTable& {
        return BatchKindOf(stage)->options();
      },
      stages));
  if (!status.ok()) return status;
  return absl::StrCat("{\n",
                      absl::StrJoin(stages, ",\n",
                                    [](std::string* out, const auto& stage) {
                                      absl::StrAppend(out, "  ", Quoted(stage.first), ": ",
                                                      stage.second);
                                    }),
                      "\n}\n");
}

}  // namespace bulkhead
