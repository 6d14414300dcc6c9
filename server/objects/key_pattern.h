#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace bulkhead {

// A pattern of keys, with the wildcards of paths (server/os/files/glob.h): `*`, `?` and `[…]` match
// no "/", nor a "." that begins a component; a backslash takes the next character as it is.
class KeyPattern {
 public:
  explicit KeyPattern(std::string pattern) : pattern_(std::move(pattern)) {}

  // Whether it has one of the characters `*?[`. One without matches itself only.
  bool has_wildcard() const;
  // What every key that matches begins with.
  std::string prefix() const;
  // Whether all keys that match lie in one folder: no wildcard stands before a "/".
  bool is_of_one_folder() const;
  // A key that ends with "/", which some tools make for a folder, matches nothing.
  bool Matches(const std::string& key) const;

 private:
  const std::string pattern_;
};

}  // namespace bulkhead
