#include "server/objects/key_pattern.h"

#include <fnmatch.h>

#include "absl/strings/match.h"

namespace bulkhead {

bool KeyPattern::has_wildcard() const { return pattern_.find_first_of("*?[") != pattern_.npos; }

std::string KeyPattern::prefix() const {
  return pattern_.substr(0, pattern_.find_first_of("*?[\\"));
}

bool KeyPattern::is_of_one_folder() const {
  return pattern_.find('/', prefix().size()) == pattern_.npos;
}

bool KeyPattern::Matches(const std::string& key) const {
  if (absl::EndsWith(key, "/")) return false;
  if (!has_wildcard()) return key == pattern_;
  return fnmatch(pattern_.c_str(), key.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

}  // namespace bulkhead
