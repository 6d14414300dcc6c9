#include "server/base/nearest_name.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace bulkhead {
namespace {

constexpr size_t kMaxLength = 64;

// Optimal string alignment: Levenshtein's distance with neighbours swapped at the price of one.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::array<std::array<size_t, kMaxLength + 1>, 3> rows{};
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({row[j - 1] + 1, above[j] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], rows[(i - 2) % 3][j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

// People write randomHorizontalFlip and random-horizontal-flip for random_horizontal_flip.
std::string Folded(absl::string_view name) {
  std::string folded;
  for (const char c : name) {
    if (absl::ascii_isalnum(c)) folded += absl::ascii_tolower(c);
  }
  return folded;
}

// The only one of `names` that begins with `folded`, or with which that begins.
std::string OnlyPrefixed(const std::string& folded, const std::vector<std::string>& names) {
  constexpr size_t kLeastLength = 3;
  std::string only;
  for (const std::string& name : names) {
    const std::string candidate = Folded(name);
    if (std::min(folded.size(), candidate.size()) < kLeastLength) continue;
    if (!absl::StartsWith(folded, candidate) && !absl::StartsWith(candidate, folded)) continue;
    if (!only.empty()) return "";
    only = name;
  }
  return only;
}

}  // namespace

std::string NearestName(absl::string_view typed, const std::vector<std::string>& names) {
  const std::string folded = Folded(typed);
  if (folded.empty() || folded.size() > kMaxLength) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(1, folded.size() / 3) + 1;
  for (const std::string& name : names) {
    const std::string candidate = Folded(name);
    if (candidate.size() > kMaxLength) continue;
    const size_t distance = EditDistance(folded, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = name;
    }
  }
  return best.empty() ? OnlyPrefixed(folded, names) : best;
}

std::string UnknownName(absl::string_view what, absl::string_view typed,
                        const std::vector<std::string>& names) {
  const std::string nearest = NearestName(typed, names);
  std::string message = absl::StrCat("unknown ", what, " `", typed.substr(0, kMaxLength), "`; ");
  if (!nearest.empty()) return absl::StrCat(message, "did you mean `", nearest, "`?");
  if (names.empty()) return absl::StrCat(message, "there is none here");
  return absl::StrCat(message, "valid are ", absl::StrJoin(names, ", "));
}

}  // namespace bulkhead
