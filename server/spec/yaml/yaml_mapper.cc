#include "server/spec/yaml/yaml_mapper.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/spec/declared_options.h"
#include "server/spec/yaml/yaml_mistakes.h"
#include "server/spec/yaml/yaml_scalar.h"

namespace bulkhead {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

// The one thing a spec writes differently: `epochs: forever` is epochs left out.
constexpr absl::string_view kEpochs = "bulkhead.v1.PipelineSpec.epochs";

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
    Problem(node.mark, path, NoYamlMap(node, message, path));
  }

 private:
  template <typename... Parts>
  void Problem(YamlMark mark, const std::string& path, const Parts&... message) {
    result_.problems.push_back({mark, path, absl::StrCat(message...)});
  }

  // Counts the visit; false when there were too many, which is said once.
  bool Visit(const YamlNode& node) {
    if (++visits_ <= kMaxYamlNodes) return true;
    if (visits_ == kMaxYamlNodes + 1) {
      Problem(node.mark, "", "aliases make more than ", kMaxYamlNodes,
              " values of this spec; write it out");
    }
    return false;
  }

  static std::string Join(const std::string& path, const std::string& name) {
    return path.empty() ? name : absl::StrCat(path, ".", name);
  }

  // Whether `key`, of the map at `path`, is a name; else it is a problem.
  bool IsName(const YamlNode& key, const std::string& path) {
    if (key.kind == YamlNode::Kind::kScalar) return true;
    Problem(key.mark, path, "a key must be a name, but is ", YamlKindName(key));
    return false;
  }

  // The same for whether `key`, which names `name`, is not among those `seen` in its map.
  bool IsFirst(const YamlNode& key, const std::string& name, const std::string& path,
               std::map<std::string, YamlMark>& seen) {
    const auto [first, inserted] = seen.emplace(name, key.mark);
    if (!inserted) {
      Problem(key.mark, Join(path, name), "`", key.text, "` stands here twice, first at ",
              first->second.line, ":", first->second.column);
    }
    return inserted;
  }

  // `- random_horizontal_flip`: a oneof's message with nothing set.
  void MapBareName(const YamlNode& node, Message& message, const std::string& path) {
    const FieldDescriptor* field = FindField(*message.GetDescriptor(), node.text);
    if (field == nullptr || field->real_containing_oneof() == nullptr ||
        field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return Problem(node.mark, path, UnknownBareName(node.text, *message.GetDescriptor()));
    }
    message.GetReflection()->MutableMessage(&message, field);
    result_.marks.emplace(Join(path, field->name()), node.mark);
  }

  void MapFields(const YamlNode& node, Message& message, const std::string& path) {
    const Descriptor& type = *message.GetDescriptor();
    std::map<std::string, YamlMark> seen;
    ChosenMembers chosen;
    for (const auto& [key, value] : node.entries) {
      if (!Visit(*key)) return;
      if (!IsName(*key, path)) continue;
      const FieldDescriptor* field = FindField(type, key->text);
      if (field == nullptr) {
        Problem(key->mark, Join(path, key->text), UnknownKey(key->text, *value, type, chosen));
        result_.incomplete.insert(path);
        result_.lacks_part |= path.empty() && value->kind != YamlNode::Kind::kScalar;
        continue;
      }
      if (!IsFirst(*key, field->name(), path, seen)) continue;
      const OneofDescriptor* oneof = field->real_containing_oneof();
      if (oneof != nullptr) {
        const auto [other, fresh] = chosen.emplace(oneof, field);
        if (!fresh) {
          Problem(key->mark, Join(path, field->name()), "one ", oneof->name(), " only: `",
                  other->second->name(), "` stands here already",
                  oneof->name() == "stage" ? "; begin each stage with a dash" : "");
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
      Problem(value.mark, path, "must be a single value, but is ", YamlKindName(value));
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
    if (const std::string problem = NoList(value.text, field); !problem.empty()) {
      return Problem(value.mark, path, problem);
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
      Problem(value.mark, path, "must be a map of names, but is ", YamlKindName(value));
      return;
    }
    const FieldDescriptor& key_field = *field.message_type()->map_key();
    const FieldDescriptor& value_field = *field.message_type()->map_value();
    std::map<std::string, YamlMark> seen;
    for (const auto& [name, item] : value.entries) {
      if (!Visit(*name)) return;
      if (!IsName(*name, path) || !IsFirst(*name, name->text, path, seen)) continue;
      const std::string place = Join(path, name->text);
      Message* entry = message.GetReflection()->AddMessage(&message, &field);
      const std::string problem = SetScalar(name->text, key_field, *entry);
      if (!problem.empty()) Problem(name->mark, place, problem);
      MapField(*name, *item, value_field, *entry, place);
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
