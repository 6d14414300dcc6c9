#include "server/spec/yaml/yaml_mistakes.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "bulkhead/v1/pipeline.pb.h"
#include "server/base/nearest_name.h"
#include "server/spec/declared_options.h"
#include "server/spec/yaml/foreign_words.h"
#include "server/spec/yaml/yaml_scalar.h"

namespace bulkhead {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

constexpr size_t kMaxShownBytes = 64;  // of a value that messages repeat

// A stage for tests of services, which no message offers.
bool IsForTests(const FieldDescriptor& field) {
  return field.message_type() == v1::Fault::descriptor();
}

// The names that messages offer of the fields of a message, or of the members of a oneof.
template <typename Fields>
std::vector<std::string> NamesOf(const Fields& fields) {
  std::vector<std::string> names;
  for (int i = 0; i < fields.field_count(); ++i) {
    if (!IsForTests(*fields.field(i))) names.push_back(fields.field(i)->name());
  }
  return names;
}

// What a message's keys are: the members of its only oneof ("stage", "source"), or fields.
std::string KeyNoun(const Descriptor& type) {
  const bool pure =
      type.real_oneof_decl_count() == 1 && type.oneof_decl(0)->field_count() == type.field_count();
  return pure ? type.oneof_decl(0)->name() : "field";
}

// Where a key that `type` lacks belongs: stages work on samples or on batches, few on both, and a
// source or a stage may stand at the top of the spec because it is not indented.
std::string OfAnotherPlace(const std::string& key, const Descriptor& type) {
  const Descriptor* const stage = v1::Stage::descriptor();
  const Descriptor* const batch_stage = v1::BatchStage::descriptor();
  const Descriptor* const spec = v1::PipelineSpec::descriptor();
  const std::tuple<const Descriptor*, const Descriptor*, const char*> places[] = {
      {stage, batch_stage, "works on whole batches: put it into batch_stages"},
      {batch_stage, stage, "works on samples: put it into stages"},
      {spec, v1::Source::descriptor(), "belongs below `source`: indent it by two spaces"},
      {spec, stage, "is a stage: put it below `stages`, after a dash"}};
  for (const auto& [here, there, advice] : places) {
    if (&type != here || FindField(*there, key) == nullptr) continue;
    return absl::StrCat("; `", key, "` ", advice);
  }
  return "";
}

// What is to be written instead of `size:8`, `size=8`, `size 8` or `-resize`, which YAML takes for
// one word, where `type` has a field, or specs a stage, of that name; empty: it is none of these.
// `is_alone`: the word stands where a map is wanted.
std::string LacksSpace(absl::string_view text, const Descriptor& type, bool is_alone = false) {
  const std::string undashed(absl::StripPrefix(text, "-"));
  if (undashed.size() < text.size() &&
      (FindField(*v1::Stage::descriptor(), undashed) != nullptr ||
       FindField(*v1::BatchStage::descriptor(), undashed) != nullptr)) {
    return absl::StrCat("`", text, "` lacks a space after the dash: write `- ", undashed, "`");
  }
  const size_t end = text.find_first_of(":= ");
  if (end == absl::string_view::npos || end + 1 == text.size() ||
      FindField(type, std::string(text.substr(0, end))) == nullptr) {
    return "";
  }
  const absl::string_view name = text.substr(0, end);
  if (text[end] == ' ' && absl::StrContains("{[", text[end + 1])) {
    return absl::StrCat("write a colon after `", name, "`");
  }
  const std::string entry =
      absl::StrCat(name, ": ", absl::StripLeadingAsciiWhitespace(text.substr(end + 1)));
  if (text[end] == ':') {
    return absl::StrCat("`", text, "` lacks a space after the colon: write `", entry, "`");
  }
  return absl::StrCat("`", text, "` lacks a colon and a space: write `", is_alone ? "{" : "", entry,
                      is_alone ? "}`" : "`");
}

// A word that stands where one of `names`, those of `type`, is wanted; null: with nothing behind
// it. It is a word of another library, a slip for one of the names, or one for another library's.
std::string UnknownWord(absl::string_view noun, const std::string& word, const YamlNode* value,
                        const Descriptor& type, const std::vector<std::string>& names) {
  std::string advice = ForeignWordAdvice(word, value, type);
  const std::string elsewhere = OfAnotherPlace(word, type);
  if (advice.empty() && elsewhere.empty()) {
    std::vector<std::string> known = names;
    for (const auto& [foreign, meant] : ForeignWords(type)) known.push_back(foreign);
    const std::string near = NearestName(word, known);
    const bool is_ours = std::find(names.begin(), names.end(), near) != names.end();
    if (!is_ours) advice = ForeignWordAdvice(near, value, type);
  }
  if (!advice.empty()) return absl::StrCat("unknown ", noun, " `", word, "`; ", advice);
  return UnknownName(noun, word, names) + elsewhere;
}

// The option of `type` that a lone value was probably meant for: the first that can hold it, but
// for names of features. Null: none can.
const FieldDescriptor* MeantField(const YamlNode& value, const Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  const bool is_list = value.kind == YamlNode::Kind::kSequence;
  const YamlNode* const item = !is_list              ? &value
                               : value.items.empty() ? nullptr
                                                     : value.items.front();
  if (item == nullptr || item->kind != YamlNode::Kind::kScalar) return nullptr;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const Option* const option = DeclaredOption(field);
    const bool names_feature = option != nullptr && !option->default_name.empty();
    if (field.message_type() != nullptr || names_feature || (is_list && !field.is_repeated())) {
      continue;
    }
    const std::unique_ptr<Message> scratch(message.New());
    if (!ForeignEnumValue(item->text, field).empty()) return &field;
    if (!SetScalar(item->text, field, *scratch).empty()) continue;
    SpecProblems problems;
    if (const OptionTable* const table = DeclaredOptions(&type); table != nullptr && !is_list) {
      table->Normalize(*scratch, "it", problems);
    }
    if (!problems.AnyAt("it." + field.name())) return &field;
  }
  return nullptr;
}

// `source: ../photos`: the source that reads what lies at a path; empty: `text` is no path.
std::string SourceOfPath(absl::string_view text) {
  if (text.size() > kMaxShownBytes || !absl::StrContains(text, '/')) return "";
  const absl::string_view file = text.substr(text.rfind('/') + 1);
  const bool is_list = absl::EndsWith(file, ".csv") || absl::EndsWith(file, ".txt") ||
                       absl::EndsWith(file, ".tsv") || absl::EndsWith(file, ".lst");
  return absl::StrContains(file, ".tfrecord") ? absl::StrCat("{tfrecord: {files: ", text, "}}")
         : absl::StrContains(file, ".tar")    ? absl::StrCat("{tar: {files: ", text, "}}")
         : is_list                            ? absl::StrCat("{image_list: {path: ", text, "}}")
                                              : absl::StrCat("{image_folder: {path: ", text, "}}");
}

// "[image, label]" of `image, label`, which YAML takes for one name; empty: these are no names.
std::string ListOfNames(absl::string_view text) {
  if (!absl::StrContains(text, ',') || text.size() > kMaxShownBytes) return "";
  std::vector<absl::string_view> names;
  for (absl::string_view name : absl::StrSplit(text, ',')) {
    name = absl::StripAsciiWhitespace(name);
    if (name.empty()) return "";
    for (const char c : name) {
      if (!absl::ascii_isalnum(c) && c != '_') return "";
    }
    names.push_back(name);
  }
  return absl::StrCat("[", absl::StrJoin(names, ", "), "]");
}

// Whether `field` lists names of classes, and `text` is a number or a switch instead.
bool IsNoListOfClasses(absl::string_view text, const FieldDescriptor& field) {
  if (field.name() != "classes" || field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return false;
  }
  double number = 0;
  bool flag = false;
  return absl::SimpleAtod(text, &number) || absl::SimpleAtob(text, &flag);
}

}  // namespace

absl::string_view YamlKindName(const YamlNode& node) {
  static constexpr absl::string_view kNames[] = {"empty", "a single value", "a list", "a map"};
  return kNames[static_cast<int>(node.kind)];
}

const FieldDescriptor* FindField(const Descriptor& type, const std::string& name) {
  const FieldDescriptor* field = type.FindFieldByName(name);
  if (field != nullptr) return field;
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->json_name() == name) return type.field(i);
  }
  return nullptr;
}

std::string UnknownKey(const std::string& key, const YamlNode& value, const Descriptor& type,
                       const ChosenMembers& chosen) {
  if (key == "padding_mode" && FindField(type, "fill") != nullptr) {
    return "unknown field `padding_mode`; added pixels have one value: write `fill: 0`, or leave "
           "it out";
  }
  for (const auto& [oneof, field] : chosen) {
    if (field->message_type() != nullptr && FindField(*field->message_type(), key) != nullptr) {
      return absl::StrCat("`", key, "` belongs to `", field->name(), "`: indent it further");
    }
  }
  if (std::string problem = LacksSpace(key, type); !problem.empty()) return problem;
  if (absl::EndsWith(key, ")") && !absl::StrContains(key, "(")) {
    return absl::StrCat("`", key,
                        "` ends a list that YAML takes for fields: write [ and ] around it");
  }
  return UnknownWord(KeyNoun(type), key, &value, type, NamesOf(type));
}

std::string NoYamlMap(const YamlNode& node, const Message& message, const std::string& path) {
  const Descriptor& type = *message.GetDescriptor();
  const std::string text = YamlText(node);
  if (std::string problem = LacksSpace(text, type, /*is_alone=*/true); !problem.empty()) {
    return problem;
  }
  if (const std::string advice = ForeignWordAdvice(text, nullptr, type); !advice.empty()) {
    return absl::StrCat("must be a map, but is `", text, "`; ", advice);
  }
  if (&type == v1::Condition::descriptor() && node.kind == YamlNode::Kind::kScalar) {
    return absl::StrCat("must be a map, but is `", text,
                        "`; write such as {feature: label, in: [3]}, or {feature: width, min: 64}");
  }
  const FieldDescriptor* const meant = MeantField(node, message);
  // "resize", "batch"; an item of a list has no name.
  const std::string name = path.substr(path.find_last_of('.') + 1);
  if (meant == nullptr || text.empty() || text.size() > kMaxShownBytes || name.empty() ||
      name.back() == ']') {
    const std::vector<std::string> names = NamesOf(type);
    return absl::StrCat("must be a map",
                        names.empty() ? "" : absl::StrCat(" ({", names[0], ": ...})"), ", but is ",
                        YamlKindName(node));
  }
  const std::string foreign = ForeignEnumValue(text, *meant);
  return absl::StrCat("must be a map, but is `", text, "`; write ", name, ": {", meant->name(),
                      ": ", foreign.empty() ? text : foreign, "}", OtherMeaning(type, text));
}

std::string UnknownBareName(const std::string& word, const Descriptor& type) {
  if (std::string problem = LacksSpace(word, type); !problem.empty()) return problem;
  if (&type == v1::Source::descriptor()) {
    if (const std::string source = SourceOfPath(word); !source.empty()) {
      return absl::StrCat("`", word, "` is a path, but which source is to read it? ",
                          "Write `source: ", source, "`");
    }
  }
  const OneofDescriptor& oneof = *type.oneof_decl(0);
  return UnknownWord(oneof.name(), word, nullptr, type, NamesOf(oneof));
}

std::string NoList(absl::string_view text, const FieldDescriptor& field) {
  if (const std::string names = ListOfNames(text);
      !names.empty() && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return absl::StrCat("`", text, "` is one name; write a list: `", field.name(), ": ", names,
                        "`");
  }
  if (!IsNoListOfClasses(text, field)) return "";
  return absl::StrCat("must be a list of names, but is `", text,
                      "`; write such as `classes: [cat, dog]`, or leave it out");
}

}  // namespace bulkhead
