#include "tools/cursor/cursor_file.h"

#include <array>
#include <fstream>
#include <iostream>
#include <map>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "server/base/cursor_version.h"
#include "server/base/error.h"
#include "server/base/limits.h"
#include "server/spec/yaml/yaml_scalar.h"
#include "server/spec/yaml/yaml_tree.h"
#include "tools/common/json.h"

namespace bulkhead::tools {
namespace {

constexpr std::array<const char*, 6> kRequired = {
    "version", "order_fingerprint", "bytes_fingerprint", "epoch", "consumed", "samples_per_epoch"};

absl::Status Invalid(absl::string_view name, const YamlMark& mark, absl::string_view what) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kCursorMismatch,
                   absl::StrCat(name, ":", mark.line, ":", mark.column, ": ", what),
                   {{"file", std::string(name)}, {"line", absl::StrCat(mark.line)}});
}

bool IsHex(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Adds one file of the user's code; returns what is wrong with it.
std::string AddCode(const YamlNode& item, v1::Cursor& cursor) {
  if (item.kind != YamlNode::Kind::kMap) return "must be a list of {name, digest}";
  v1::CodeFile& file = *cursor.add_code();
  for (const auto& [key, value] : item.entries) {
    const auto* field = v1::CodeFile::descriptor()->FindFieldByName(key->text);
    if (field == nullptr || value->kind != YamlNode::Kind::kScalar) {
      return "must be a list of {name, digest}";
    }
    if (std::string wrong = SetScalar(value->text, *field, file); !wrong.empty()) return wrong;
  }
  if (file.name().empty() || !IsHex(file.digest())) {
    return "must have for each file a name and, in lower-case hexadecimal digits, a digest";
  }
  return "";
}

// Sets one member of the cursor; returns what is wrong with it.
std::string SetMember(const YamlNode& value, const google::protobuf::FieldDescriptor& field,
                      v1::Cursor& cursor) {
  if (!field.is_repeated()) {
    if (value.kind != YamlNode::Kind::kScalar) return "must be a single value";
    return SetScalar(value.text, field, cursor);
  }
  if (value.kind != YamlNode::Kind::kSequence) return "must be a list";
  const bool code = field.number() == v1::Cursor::kCodeFieldNumber;
  for (const YamlNode* item : value.items) {
    if (code) {
      if (std::string wrong = AddCode(*item, cursor); !wrong.empty()) return wrong;
      continue;
    }
    if (item->kind != YamlNode::Kind::kScalar) return "must be a list of texts";
    if (std::string wrong = SetScalar(item->text, field, cursor); !wrong.empty()) return wrong;
  }
  return "";
}

// What cannot be true of a cursor, with the member it is about.
std::pair<std::string, std::string> Impossible(const v1::Cursor& cursor) {
  if (std::string problem = CursorVersionProblem(cursor.version()); !problem.empty()) {
    return {"version", std::move(problem)};
  }
  if (!IsHex(cursor.order_fingerprint())) {
    return {"order_fingerprint", "order_fingerprint must be lower-case hexadecimal digits"};
  }
  if (!IsHex(cursor.bytes_fingerprint())) {
    return {"bytes_fingerprint", "bytes_fingerprint must be lower-case hexadecimal digits"};
  }
  if (cursor.samples_per_epoch() == 0) {
    return {"samples_per_epoch", "samples_per_epoch is 0: there is no such data set"};
  }
  if (cursor.consumed() > cursor.samples_per_epoch()) {
    return {"consumed", absl::StrCat("consumed is ", cursor.consumed(), ", but an epoch has only ",
                                     cursor.samples_per_epoch(), " samples (samples_per_epoch)")};
  }
  uint32_t before = 0;
  for (const uint32_t batch : cursor.completed()) {
    if (batch <= before || batch > kMaxBatchesAhead) {
      return {"completed",
              absl::StrCat("completed must hold ascending numbers from 1 to ", kMaxBatchesAhead)};
    }
    before = batch;
  }
  if (!cursor.completed().empty() && (cursor.batch_size() == 0 || cursor.world_size() == 0)) {
    return {"completed",
            "completed needs the batch_size and world_size that its batches were made with"};
  }
  return {};
}

}  // namespace

absl::StatusOr<v1::Cursor> ParseCursor(absl::string_view text, absl::string_view name) {
  const auto parsed = YamlTree::Parse(text);
  if (const auto* fault = std::get_if<YamlFault>(&parsed)) {
    return Invalid(name, fault->mark,
                   absl::StrCat("the JSON is damaged: ",
                                absl::StripPrefix(fault->message, "not valid YAML: ")));
  }
  const YamlNode& root = std::get<YamlTree>(parsed).root();
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (root.kind != YamlNode::Kind::kMap || first == absl::string_view::npos || text[first] != '{') {
    return Invalid(name, root.mark,
                   "is not a JSON object; a cursor is the text that batch.cursor() or "
                   "json.dumps(loader.state_dict()) gives");
  }
  v1::Cursor cursor;
  std::map<std::string, YamlMark> marks;
  for (const auto& [key, value] : root.entries) {
    const auto* field = v1::Cursor::descriptor()->FindFieldByName(key->text);
    if (field == nullptr) {
      return Invalid(name, key->mark, absl::StrCat("a cursor has no member `", key->text, "`"));
    }
    if (!marks.emplace(key->text, value->mark).second) {
      return Invalid(name, key->mark, absl::StrCat("`", key->text, "` is listed twice"));
    }
    if (const std::string wrong = SetMember(*value, *field, cursor); !wrong.empty()) {
      return Invalid(name, value->mark, absl::StrCat(key->text, " ", wrong));
    }
  }
  for (const char* required : kRequired) {
    if (marks.count(required) == 0) {
      return Invalid(name, root.mark, absl::StrCat("the cursor has no `", required, "`"));
    }
  }
  if (const auto [member, what] = Impossible(cursor); !what.empty()) {
    return Invalid(name, marks.at(member), what);
  }
  return cursor;
}

absl::StatusOr<v1::Cursor> ReadCursor(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) {
      return MakeError(
          absl::StatusCode::kNotFound, reason::kFileNotFound,
          absl::StrCat(path, ": cannot be opened; is the path right, and may you read it?"),
          {{"file", path}});
    }
  }
  std::istream& stream = path == "-" ? std::cin : file;
  std::string text(kMaxYamlBytes + 1, '\0');  // one more than the parser takes
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (stream.bad() || (text.empty() && !stream.eof())) {
    return MakeError(absl::StatusCode::kUnavailable, reason::kFileUnreadable,
                     absl::StrCat(path, ": cannot be read; is it a file?"), {{"file", path}});
  }
  return ParseCursor(text, path == "-" ? "stdin" : path);
}

std::string CursorJson(const v1::Cursor& cursor) {
  std::string json = absl::StrCat(
      "{\"version\": ", cursor.version(), ", \"order_fingerprint\": \"", cursor.order_fingerprint(),
      "\", \"bytes_fingerprint\": \"", cursor.bytes_fingerprint(),
      "\", \"epoch\": ", cursor.epoch(), ", \"consumed\": ", cursor.consumed(),
      ", \"samples_per_epoch\": ", cursor.samples_per_epoch(), ", \"quarantined\": [");
  for (int i = 0; i < cursor.quarantined_size(); ++i) {
    absl::StrAppend(&json, i > 0 ? ", " : "", Quoted(cursor.quarantined(i)));
  }
  absl::StrAppend(&json, "], \"substitutions\": ", cursor.substitutions());
  if (!cursor.completed().empty()) {
    absl::StrAppend(&json, ", \"completed\": [", absl::StrJoin(cursor.completed(), ", "),
                    "], \"batch_size\": ", cursor.batch_size(),
                    ", \"world_size\": ", cursor.world_size());
  }
  for (int i = 0; i < cursor.code_size(); ++i) {
    const v1::CodeFile& file = cursor.code(i);
    absl::StrAppend(&json, i == 0 ? ", \"code\": [" : ", ", "{\"name\": ", Quoted(file.name()),
                    ", \"digest\": ", Quoted(file.digest()),
                    file.later() ? ", \"later\": true" : "",
                    i + 1 == cursor.code_size() ? "}]" : "}");
  }
  json += '}';
  return json;
}

}  // namespace bulkhead::tools
