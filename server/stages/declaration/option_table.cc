#include "server/stages/declaration/option_table.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "server/stages/declaration/field_access.h"

namespace bulkhead {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A number in the usual spelling for the field's type.
std::string SpelledFor(const FieldDescriptor& field, double value) {
  const auto type = field.cpp_type();
  const bool whole =
      type != FieldDescriptor::CPPTYPE_DOUBLE && type != FieldDescriptor::CPPTYPE_FLOAT;
  // -infinity and infinity mean no limit; no message shows them.
  return whole && value > -0x1p62 && value < 0x1p62 ? absl::StrCat(static_cast<int64_t>(value))
                                                    : absl::StrCat(value);
}

// The values of one field of a message, as numbers.
class FieldValues {
 public:
  FieldValues(Message& message, const FieldDescriptor* field)
      : message_(message), reflection_(*message.GetReflection()), field_(field) {}

  int size() const {
    if (field_->is_repeated()) return reflection_.FieldSize(message_, field_);
    return reflection_.HasField(message_, field_) ? 1 : 0;
  }

  bool is_number() const {
    return field_->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
           field_->cpp_type() != FieldDescriptor::CPPTYPE_STRING;
  }

  double at(int i) const {
    return WithAccess(*field_, [&](auto get, auto get_of_list, auto, auto) {
      return static_cast<double>(field_->is_repeated()
                                     ? (reflection_.*get_of_list)(message_, field_, i)
                                     : (reflection_.*get)(message_, field_));
    });
  }

  void Add(double value) {
    WithAccess(*field_, [&](auto get, auto, auto set, auto add) {
      const auto typed = static_cast<decltype((reflection_.*get)(message_, field_))>(value);
      (reflection_.*(field_->is_repeated() ? add : set))(&message_, field_, typed);
    });
  }

  void SetName(const std::string& name) {
    if (field_->is_repeated()) return reflection_.AddString(&message_, field_, name);
    reflection_.SetString(&message_, field_, name);
  }

  void Clear() { reflection_.ClearField(&message_, field_); }

  std::string Spelled(double value) const { return SpelledFor(*field_, value); }

 private:
  Message& message_;
  const Reflection& reflection_;
  const FieldDescriptor* field_;
};

bool IsWithin(const Option& option, double value) {
  return (option.is_above_least ? value > option.least : value >= option.least) &&
         value <= option.most;
}

// The mistake in a pair [low, high]; empty: none.
std::string RangeProblem(const Option& option, const FieldValues& values) {
  if (values.size() == 2 && IsWithin(option, values.at(0)) && values.at(0) <= values.at(1) &&
      values.at(1) <= option.most) {
    return "";
  }
  return absl::StrCat("must be two numbers [low, high] with ", values.Spelled(option.least),
                      option.is_above_least ? " < " : " <= ", "low <= high <= ",
                      values.Spelled(option.most), option.limits_say);
}

// The mistake in the given values; empty: none.
std::string Problem(const Option& option, const FieldDescriptor* field, const FieldValues& values) {
  const int count = values.size();
  const bool fits = count >= option.least_count && count <= option.most_count;
  if (!fits && !(count == 1 && option.one_stands_for > 1)) {
    return absl::Substitute(option.count_says, count, option.least_count, option.most_count);
  }
  if (!values.is_number()) return "";
  if (option.is_range) return RangeProblem(option, values);
  for (int i = 0; i < count; ++i) {
    const double value = values.at(i);
    const bool allowed = option.only == nullptr || option.only(value);
    if (!allowed || !IsWithin(option, value)) {
      return absl::Substitute(allowed ? option.limits_say : option.only_says, values.Spelled(value),
                              values.Spelled(option.least), values.Spelled(option.most));
    }
    if (field->enum_type() != nullptr &&
        field->enum_type()->FindValueByNumber(static_cast<int>(value)) == nullptr) {
      return absl::StrCat("has the unknown value ", values.Spelled(value));
    }
  }
  return "";
}

// For an option that is not there.
void FillDefault(const Option& option, FieldValues& values) {
  if (option.implied.has_value()) return;
  for (const double value : option.defaults) values.Add(value);
  if (!option.default_name.empty()) values.SetName(option.default_name);
}

// `example` is appended to the message of a required option that is not there.
void NormalizeOption(const Option& option, const FieldDescriptor* field, const std::string& path,
                     const std::string& example, Message& message, SpecProblems& problems) {
  FieldValues values(message, field);
  const std::string place = absl::StrCat(path, path.empty() ? "" : ".", option.name);
  if (values.size() == 0) {
    if (!option.needs.empty()) return problems.Add(place, option.needs + example);
    FillDefault(option, values);
    if (values.size() == 0) return;
  }
  if (option.one_stands_for > 1 && values.size() == 1) {
    const double value = values.at(0);
    for (int i = 1; i < option.one_stands_for; ++i) values.Add(value);
  }
  const std::string problem = Problem(option, field, values);
  if (!problem.empty()) return problems.Add(place, problem);
  if (option.implied.has_value() && values.at(0) == *option.implied) values.Clear();
}

}  // namespace

OptionTable::OptionTable(const google::protobuf::Descriptor* message, std::vector<Option> options)
    : message_(message), options_(std::move(options)) {
  for (const Option& option : options_) {
    if (message->FindFieldByName(option.name) != nullptr) continue;
    std::fprintf(stderr, "%s has no option %s\n", message->name().c_str(), option.name.c_str());
    std::abort();
  }
}

const Option* OptionTable::Find(absl::string_view name) const {
  for (const Option& option : options_) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

void OptionTable::Normalize(Message& options, const std::string& path,
                            SpecProblems& problems) const {
  const bool bare = options.ByteSizeLong() == 0;
  const std::string example = bare ? Example(path.substr(path.rfind('.') + 1)) : "";
  for (const Option& option : options_) {
    NormalizeOption(option, message_->FindFieldByName(option.name), path, example, options,
                    problems);
  }
}

std::string OptionTable::Example(absl::string_view name) const {
  std::vector<std::string> written;
  for (const Option& option : options_) {
    if (option.needs.empty()) continue;
    if (option.example.empty()) return "";
    written.push_back(absl::StrCat(option.name, ": ", option.example));
  }
  if (written.empty()) return "";
  return absl::StrCat("; write `", name, ": {", absl::StrJoin(written, ", "), "}`");
}

void OptionTable::FillDefaults(Message& options) const {
  for (const Option& option : options_) {
    FieldValues values(options, message_->FindFieldByName(option.name));
    if (values.size() == 0) FillDefault(option, values);
  }
}

void OptionTable::FillImplied(Message& options) const {
  for (const Option& option : options_) {
    FieldValues values(options, message_->FindFieldByName(option.name));
    if (option.implied.has_value() && values.size() == 0) values.Add(*option.implied);
  }
}

void OptionTable::NameFirstDefaults(Message& options) const {
  for (const Option& option : options_) {
    if (!option.first_default.has_value()) continue;
    FieldValues values(options, message_->FindFieldByName(option.name));
    if (values.size() == 0 || values.at(0) != option.defaults[0]) continue;
    values.Clear();
    values.Add(*option.first_default);
  }
}

std::string OptionTable::ProblemOfZero(absl::string_view name) const {
  const Option* const option = Find(name);
  if (option == nullptr) return "";
  if (option->only != nullptr && !option->only(0)) {
    return absl::Substitute(option->only_says, 0, option->least, option->most);
  }
  if (IsWithin(*option, 0)) return "";
  if (option->is_above_least) {
    return absl::StrCat(
        "is 0; it must be above ", option->least,
        std::isfinite(option->most) ? absl::StrCat(" and at most ", option->most) : "");
  }
  const FieldDescriptor& field = *message_->FindFieldByName(option->name);
  return absl::StrCat("is 0; it must ",
                      std::isfinite(option->most)
                          ? absl::StrCat("lie between ", SpelledFor(field, option->least), " and ",
                                         SpelledFor(field, option->most))
                          : absl::StrCat("be at least ", SpelledFor(field, option->least)));
}

absl::Status OptionTable::CheckRequired(const Message& options, absl::string_view path) const {
  for (const Option& option : options_) {
    if (option.needs.empty()) continue;
    const FieldDescriptor* field = message_->FindFieldByName(option.name);
    // The message is only read.
    const FieldValues values(const_cast<Message&>(options), field);
    const std::string problem = values.size() == 0 ? option.needs : Problem(option, field, values);
    if (!problem.empty()) return SpecError(absl::StrCat(path, ".", option.name), problem);
  }
  return absl::OkStatus();
}

}  // namespace bulkhead
