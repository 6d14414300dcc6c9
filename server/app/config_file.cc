#include "server/app/config_file.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/app/mistake.h"
#include "server/base/error.h"
#include "server/base/nearest_name.h"
#include "server/spec/yaml/yaml_tree.h"

namespace bulkhead {
namespace {

constexpr size_t kMaxFileBytes = 64 * 1024;
constexpr int kMaxDepth = 8;

// Sets options from one file.
class FileReader {
 public:
  FileReader(std::string path, CLI::App& app, std::map<std::string, std::string>* places)
      : path_(std::move(path)), app_(app), places_(places) {
    for (const CLI::Option* option : app.get_options()) {
      const std::string name = option->get_single_name();
      // Options that only make sense on a command line.
      if (name != "help" && name != "version" && name != "config") names_.push_back(name);
    }
  }

  absl::Status ReadMapping(const YamlNode& mapping, const std::string& prefix, int depth) {
    // An alias may even be inside the node that it names.
    if (depth > kMaxDepth) return Error(mapping.mark, prefix, "is nested too deeply");
    for (const auto& [key, value] : mapping.entries) {
      if (key->kind != YamlNode::Kind::kScalar) {
        return Error(key->mark, prefix, "a key must be a plain name");
      }
      std::string name = key->text;
      std::replace(name.begin(), name.end(), '_', '-');
      if (!prefix.empty()) name = absl::StrCat(prefix, "-", name);
      BULKHEAD_RETURN_IF_ERROR(ReadEntry(name, key->mark, *value, depth));
    }
    return absl::OkStatus();
  }

  absl::Status Error(const YamlMark& mark, const std::string& key, const std::string& what) const {
    return Mistake(Place(mark), ": ", key, key.empty() ? "" : ": ", what);
  }

 private:
  std::string Place(const YamlMark& mark) const {
    return absl::StrCat(path_, ":", mark.line, ":", mark.column);
  }

  absl::Status ReadEntry(const std::string& name, const YamlMark& mark, const YamlNode& value,
                         int depth) {
    const bool known = std::ranges::find(names_, name) != names_.end();
    // `python` is an option, and so is `python: {path: …}`.
    const bool has_longer = std::ranges::any_of(
        names_, [&](const std::string& one) { return absl::StartsWith(one, name + "-"); });
    if (value.kind == YamlNode::Kind::kMap && (!known || has_longer)) {
      return ReadMapping(value, name, depth + 1);
    }
    if (!known) return Error(mark, name, UnknownName("option", name, names_));
    const auto [first, is_new] = seen_.try_emplace(name, mark.line);
    if (!is_new) {
      return Error(mark, name, absl::StrCat("is given twice, first on line ", first->second));
    }
    return SetOption(name, value);
  }

  absl::Status SetOption(const std::string& name, const YamlNode& value) {
    CLI::Option& option = *app_.get_option("--" + name);
    const bool is_list = option.get_expected_max() > 1;
    if (places_ != nullptr) (*places_)[name] = Place(value.mark);
    const bool is_empty = value.kind == YamlNode::Kind::kScalar && value.text.empty();
    if (is_empty || value.kind == YamlNode::Kind::kNull) {
      return Error(value.mark, name,
                   is_list ? "has no value; write one, or a list of them such as [a, b]"
                           : "has no value; it must be a single value");
    }
    if (value.kind == YamlNode::Kind::kSequence && is_list) {
      if (value.items.empty()) return Error(value.mark, name, "is an empty list");
      for (const YamlNode* item : value.items) {
        BULKHEAD_RETURN_IF_ERROR(AddValue(option, name, *item));
      }
    } else {
      BULKHEAD_RETURN_IF_ERROR(AddValue(option, name, value));
    }
    try {
      option.run_callback();
    } catch (const CLI::ParseError& error) {
      return Error(value.mark, name, error.what());
    }
    return absl::OkStatus();
  }

  absl::Status AddValue(CLI::Option& option, const std::string& name, const YamlNode& value) {
    if (value.kind != YamlNode::Kind::kScalar || value.text.empty()) {
      return Error(value.mark, name, "must be a single value");
    }
    const bool is_flag = option.get_expected_max() == 0;
    if (is_flag && value.text != "true" && value.text != "false") {
      return Error(value.mark, name,
                   absl::StrCat("'", value.text, "' is not a boolean: write true or false"));
    }
    option.add_result(value.text);
    return absl::OkStatus();
  }

  const std::string path_;
  CLI::App& app_;
  std::map<std::string, std::string>* const places_;  // may be null
  std::vector<std::string> names_;
  std::map<std::string, int> seen_;  // line of each key
};

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    // A FIFO would be waited for.
    return Mistake(path, ": the configuration cannot be read: it is no file");
  }
  std::ifstream file(path);
  if (!file) {
    return Mistake(path, ": the configuration cannot be read: ", std::strerror(errno));
  }
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) return Mistake(path, ": cannot be read");
  if (text.size() > kMaxFileBytes) {
    return Mistake(path, ": a configuration has at most ", kMaxFileBytes, " bytes");
  }
  return text;
}

bool IsBlank(const std::string& text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view rest = absl::StripLeadingAsciiWhitespace(line);
    if (!rest.empty() && rest[0] != '#') return false;
  }
  return true;
}

}  // namespace

absl::Status ReadConfigFile(const std::string& path, CLI::App& app,
                            std::map<std::string, std::string>* places) {
  BULKHEAD_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  if (IsBlank(text)) return absl::OkStatus();
  FileReader reader(path, app, places);
  const std::variant<YamlTree, YamlFault> parsed = YamlTree::Parse(text);
  if (const auto* fault = std::get_if<YamlFault>(&parsed)) {
    return reader.Error(fault->mark, "", fault->message);
  }
  const YamlNode& root = std::get<YamlTree>(parsed).root();
  if (root.kind != YamlNode::Kind::kMap) {
    return reader.Error(root.mark, "", "a configuration is a mapping of options");
  }
  return reader.ReadMapping(root, "", 1);
}

}  // namespace bulkhead
