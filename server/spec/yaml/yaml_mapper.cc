#include "server/spec/yaml/yaml_mapper.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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

// The one thing a spec writes differently: `epochs: forever` is epochs left out.
constexpr absl::string_view kEpochs = "bulkhead.v1.PipelineSpec.epochs";

absl::string_view KindName(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "empty";
    case YamlNode::Kind::kScalar:
      return "a single value";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
  }
  return "";
}

const FieldDescriptor* FindField(const Descriptor& type, const std::string& name) {
  const FieldDescriptor* field = type.FindFieldByName(name);
  if (field != nullptr) return field;
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->json_name() == name) return type.field(i);
  }
  return nullptr;
}

// A stage for tests of services, which no message offers.
bool IsForTests(const FieldDescriptor& field) {
  return field.message_type() == v1::Fault::descriptor();
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    if (!IsForTests(*type.field(i))) names.push_back(type.field(i)->name());
  }
  return names;
}

std::vector<std::string> MemberNames(const OneofDescriptor& oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof.field_count(); ++i) {
    if (!IsForTests(*oneof.field(i))) names.push_back(oneof.field(i)->name());
  }
  return names;
}

// What is wrong with a number that was just set to 0 and now looks as if it had not been set.
std::string ProblemOfZero(const FieldDescriptor& field, const Message& message) {
  const bool is_number = field.cpp_type() != FieldDescriptor::CPPTYPE_STRING &&
                         field.cpp_type() != FieldDescriptor::CPPTYPE_BOOL &&
                         field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM;
  if (field.is_repeated() || field.has_presence() || !is_number ||
      message.GetReflection()->HasField(message, &field)) {
    return "";
  }
  const OptionTable* const table = DeclaredOptions(field.containing_type());
  return table == nullptr ? "" : table->ProblemOfZero(field.name());
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
  if (&type == v1::Stage::descriptor() &&
      FindField(*v1::BatchStage::descriptor(), key) != nullptr) {
    return absl::StrCat("; `", key, "` works on whole batches: put it into batch_stages");
  }
  if (&type == v1::BatchStage::descriptor() &&
      FindField(*v1::Stage::descriptor(), key) != nullptr) {
    return absl::StrCat("; `", key, "` works on samples: put it into stages");
  }
  if (&type != v1::PipelineSpec::descriptor()) return "";
  if (FindField(*v1::Source::descriptor(), key) != nullptr) {
    return absl::StrCat("; `", key, "` belongs below `source`: indent it by two spaces");
  }
  if (FindField(*v1::Stage::descriptor(), key) != nullptr) {
    return absl::StrCat("; `", key, "` is a stage: put it below `stages`, after a dash");
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
    for (const ForeignWord& foreign : ForeignWords(type)) known.push_back(foreign.word);
    const std::string near = NearestName(word, known);
    const bool is_ours = std::find(names.begin(), names.end(), near) != names.end();
    if (!is_ours) advice = ForeignWordAdvice(near, value, type);
  }
  if (!advice.empty()) return absl::StrCat("unknown ", noun, " `", word, "`; ", advice);
  return UnknownName(noun, word, names) + elsewhere;
}

// A key that `type` lacks, and its value. The commonest slip is an option that stands beside its
// stage instead of below it; the next one, a word of another library.
std::string UnknownKey(const std::string& key, const YamlNode& value, const Descriptor& type,
                       const std::map<const OneofDescriptor*, const FieldDescriptor*>& chosen) {
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
  return UnknownWord(KeyNoun(type), key, &value, type, FieldNames(type));
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

// The problem with a value at `path`, where a message is expected.
std::string NoMap(const YamlNode& node, const Message& message, const std::string& path) {
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
    const std::vector<std::string> names = FieldNames(type);
    return absl::StrCat("must be a map",
                        names.empty() ? "" : absl::StrCat(" ({", names[0], ": ...})"), ", but is ",
                        KindName(node));
  }
  const std::string foreign = ForeignEnumValue(text, *meant);
  return absl::StrCat("must be a map, but is `", text, "`; write ", name, ": {", meant->name(),
                      ": ", foreign.empty() ? text : foreign, "}", OtherMeaning(type, text));
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

// What is wrong with a word alone that names no member of the oneof of `type`, where it is no slip
// in a name.
std::string BareNameProblem(absl::string_view text, const Descriptor& type) {
  if (std::string problem = LacksSpace(text, type); !problem.empty()) return problem;
  if (&type != v1::Source::descriptor()) return "";
  const std::string source = SourceOfPath(text);
  return source.empty() ? ""
                        : absl::StrCat("`", text, "` is a path, but which source is to read it? ",
                                       "Write `source: ", source, "`");
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

class Mapper {
 public:
  MappedYaml Take() { return std::move(result_); }

  void MapMessage(const YamlNode& node, Message& message, const std::string& path) {
    if (!Visit(node)) return;
    switch (node.kind) {
      case YamlNode::Kind::kNull:
        return;  // `decode_image:` with nothing after it
      case YamlNode::Kind::kMap:
        return MapFields(node, message, path);
      case YamlNode::Kind::kScalar:
        if (message.GetDescriptor()->real_oneof_decl_count() == 1) {
          return MapBareName(node, message, path);
        }
        break;
      case YamlNode::Kind::kSequence:
        break;
    }
    Problem(node.mark, path, NoMap(node, message, path));
  }

 private:
  void Problem(YamlMark mark, const std::string& path, absl::string_view message) {
    result_.problems.push_back({mark, path, std::string(message)});
  }

  // Counts the visit; false when there were too many, which is said once.
  bool Visit(const YamlNode& node) {
    if (++visits_ <= kMaxYamlNodes) return true;
    if (visits_ == kMaxYamlNodes + 1) {
      Problem(node.mark, "",
              absl::StrCat("aliases make more than ", kMaxYamlNodes,
                           " values of this spec; write it out"));
    }
    return false;
  }

  static std::string Join(const std::string& path, const std::string& name) {
    return path.empty() ? name : absl::StrCat(path, ".", name);
  }

  // `- random_horizontal_flip`: a oneof's message with nothing set.
  void MapBareName(const YamlNode& node, Message& message, const std::string& path) {
    const OneofDescriptor& oneof = *message.GetDescriptor()->oneof_decl(0);
    const FieldDescriptor* field = FindField(*message.GetDescriptor(), node.text);
    if (field == nullptr || field->real_containing_oneof() == nullptr ||
        field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      if (std::string problem = BareNameProblem(node.text, *message.GetDescriptor());
          !problem.empty()) {
        return Problem(node.mark, path, problem);
      }
      Problem(node.mark, path,
              UnknownWord(oneof.name(), node.text, nullptr, *message.GetDescriptor(),
                          MemberNames(oneof)));
      return;
    }
    message.GetReflection()->MutableMessage(&message, field);
    result_.marks.emplace(Join(path, field->name()), node.mark);
  }

  void MapFields(const YamlNode& node, Message& message, const std::string& path) {
    const Descriptor& type = *message.GetDescriptor();
    std::map<const FieldDescriptor*, YamlMark> seen;
    std::map<const OneofDescriptor*, const FieldDescriptor*> chosen;
    for (const auto& [key, value] : node.entries) {
      if (!Visit(*key)) return;
      if (key->kind != YamlNode::Kind::kScalar) {
        Problem(key->mark, path, absl::StrCat("a key must be a name, but is ", KindName(*key)));
        continue;
      }
      const FieldDescriptor* field = FindField(type, key->text);
      if (field == nullptr) {
        Problem(key->mark, Join(path, key->text), UnknownKey(key->text, *value, type, chosen));
        result_.incomplete.insert(path);
        result_.lacks_part |= path.empty() && value->kind != YamlNode::Kind::kScalar;
        continue;
      }
      const auto [first, inserted] = seen.emplace(field, key->mark);
      if (!inserted) {
        Problem(key->mark, Join(path, field->name()),
                absl::StrCat("`", key->text, "` stands here twice, first at ", first->second.line,
                             ":", first->second.column));
        continue;
      }
      const OneofDescriptor* oneof = field->real_containing_oneof();
      if (oneof != nullptr) {
        const auto [other, fresh] = chosen.emplace(oneof, field);
        if (!fresh) {
          Problem(key->mark, Join(path, field->name()),
                  absl::StrCat("one ", oneof->name(), " only: `", other->second->name(),
                               "` stands here already",
                               oneof->name() == "stage" ? "; begin each stage with a dash" : ""));
          continue;
        }
      }
      MapField(*key, *value, *field, message, Join(path, field->name()));
    }
  }

  void MapField(const YamlNode& key, const YamlNode& value, const FieldDescriptor& field,
                Message& message, const std::string& path) {
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    result_.marks.emplace(path, is_message ? key.mark : value.mark);
    if (field.is_map()) return MapEntries(key, value, field, message, path);
    if (field.is_repeated()) return MapList(key, value, field, message, path);
    if (is_message) {
      return MapMessage(value, *message.GetReflection()->MutableMessage(&message, &field), path);
    }
    MapScalar(key.mark, value, field, message, path);
  }

  void MapScalar(YamlMark key_mark, const YamlNode& value, const FieldDescriptor& field,
                 Message& message, const std::string& path) {
    if (!Visit(value)) return;
    if (value.kind == YamlNode::Kind::kNull) {
      Problem(key_mark, path, "has no value");
      return;
    }
    if (value.kind != YamlNode::Kind::kScalar) {
      Problem(value.mark, path, absl::StrCat("must be a single value, but is ", KindName(value)));
      return;
    }
    if (field.full_name() == kEpochs && value.text == "forever") return;
    std::string problem = SetScalar(value.text, field, message);
    if (!problem.empty() && field.full_name() == kEpochs) {
      problem = absl::StrReplaceAll(problem, {{"at least 0", "at least 1"}}) + "; or write forever";
    }
    if (problem.empty()) problem = ProblemOfZero(field, message);
    if (problem.empty()) return;
    Problem(value.mark, path, problem);
    // What the message lacks may be what this was to say: a resize has a size, or a factor.
    const std::string around = path.substr(0, path.find_last_of('.'));
    if (around.size() < path.size()) result_.incomplete.insert(around);
  }

  void MapList(const YamlNode& key, const YamlNode& value, const FieldDescriptor& field,
               Message& message, const std::string& path) {
    if (!Visit(value)) return;
    if (value.kind == YamlNode::Kind::kNull) {
      Problem(key.mark, path, "has no value; write [] for an empty list");
      return;
    }
    if (const std::string names = ListOfNames(value.text);
        !names.empty() && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      return Problem(value.mark, path,
                     absl::StrCat("`", value.text, "` is one name; write a list: `", field.name(),
                                  ": ", names, "`"));
    }
    if (IsNoListOfClasses(value.text, field)) {
      return Problem(value.mark, path,
                     absl::StrCat("must be a list of names, but is `", value.text,
                                  "`; write such as `classes: [cat, dog]`, or leave it out"));
    }
    if (value.kind != YamlNode::Kind::kSequence) {
      return MapItem(key.mark, value, field, message, absl::StrCat(path, "[0]"));
    }
    for (size_t i = 0; i < value.items.size(); ++i) {
      const YamlNode& item = *value.items[i];
      if (visits_ > kMaxYamlNodes) return;
      MapItem(item.mark, item, field, message, absl::StrCat(path, "[", i, "]"));
    }
  }

  void MapItem(YamlMark mark, const YamlNode& item, const FieldDescriptor& field, Message& message,
               const std::string& path) {
    result_.marks.emplace(path, item.mark);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      MapMessage(item, *message.GetReflection()->AddMessage(&message, &field), path);
    } else {
      MapScalar(mark, item, field, message, path);
    }
  }

  // A map field: entries of a string key and a message or a scalar.
  void MapEntries(const YamlNode& key, const YamlNode& value, const FieldDescriptor& field,
                  Message& message, const std::string& path) {
    if (!Visit(value)) return;
    if (value.kind == YamlNode::Kind::kNull) {
      Problem(key.mark, path, "has no value");
      return;
    }
    if (value.kind != YamlNode::Kind::kMap) {
      Problem(value.mark, path, absl::StrCat("must be a map of names, but is ", KindName(value)));
      return;
    }
    const FieldDescriptor& key_field = *field.message_type()->map_key();
    const FieldDescriptor& value_field = *field.message_type()->map_value();
    std::map<std::string, YamlMark> seen;
    for (const auto& [name, item] : value.entries) {
      if (!Visit(*name)) return;
      if (name->kind != YamlNode::Kind::kScalar) {
        Problem(name->mark, path, absl::StrCat("a key must be a name, but is ", KindName(*name)));
        continue;
      }
      const auto [first, inserted] = seen.emplace(name->text, name->mark);
      const std::string place = Join(path, name->text);
      if (!inserted) {
        Problem(name->mark, place,
                absl::StrCat("`", name->text, "` stands here twice, first at ", first->second.line,
                             ":", first->second.column));
        continue;
      }
      const bool is_message = value_field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      result_.marks.emplace(place, is_message ? name->mark : item->mark);
      Message* entry = message.GetReflection()->AddMessage(&message, &field);
      const std::string problem = SetScalar(name->text, key_field, *entry);
      if (!problem.empty()) Problem(name->mark, place, problem);
      if (is_message) {
        MapMessage(*item, *entry->GetReflection()->MutableMessage(entry, &value_field), place);
      } else {
        MapScalar(name->mark, *item, value_field, *entry, place);
      }
    }
  }

  MappedYaml result_;
  size_t visits_ = 0;
};

}  // namespace

MappedYaml MapYaml(const YamlNode& root, Message& message) {
  Mapper mapper;
  mapper.MapMessage(root, message, "");
  return mapper.Take();
}

}  // namespace bulkhead
