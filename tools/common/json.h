#pragma once

#include <concepts>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace bulkhead::tools {

// `text` as a JSON string, which is a YAML string, too.
std::string Quoted(absl::string_view text);

// A JSON object under construction; members stay in the order in which they were added.
//
//   JsonObject().Add("images", 400).Add("rate", 1013.5).Text()
class JsonObject {
 public:
  JsonObject& Add(absl::string_view key, absl::string_view value);
  JsonObject& Add(absl::string_view key, const char* value) {
    return Add(key, absl::string_view(value));
  }
  // Rounded to six significant digits; not a number becomes null.
  JsonObject& Add(absl::string_view key, double value);
  JsonObject& Add(absl::string_view key, bool value);
  JsonObject& Add(absl::string_view key, std::integral auto value) {
    return AddRaw(key, absl::StrCat(value));
  }
  JsonObject& Add(absl::string_view key, const JsonObject& value);
  JsonObject& Add(absl::string_view key, const std::vector<JsonObject>& values);
  JsonObject& Add(absl::string_view key, const std::vector<std::string>& values);

  // An object with a member for each of `values`.
  template <typename Value>
  JsonObject& Add(absl::string_view key, const std::map<std::string, Value>& values) {
    JsonObject members;
    for (const auto& [name, value] : values) members.Add(name, value);
    return Add(key, members);
  }

  // A list of what `describe` makes of each of `items`.
  template <typename Items, typename Describe>
  JsonObject& AddEach(absl::string_view key, const Items& items, const Describe& describe) {
    std::vector<JsonObject> objects;
    for (const auto& item : items) objects.push_back(describe(item));
    return Add(key, objects);
  }

  // The object on lines of its own, nested ones indented; no newline at the end.
  std::string Text() const;

 private:
  JsonObject& AddRaw(absl::string_view key, absl::string_view text);
  JsonObject& AddItems(absl::string_view key, const std::vector<std::string>& items);
  std::string members_;
};

}  // namespace bulkhead::tools
