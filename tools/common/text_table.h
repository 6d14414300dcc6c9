#pragma once

#include <string>
#include <vector>

namespace bulkhead::tools {

using TextRow = std::vector<std::string>;

// Lines of columns that are as wide as they need be on a terminal: characters of UTF-8 count once,
// colours not at all. `right`: by column, whether it is on the right; left out: all on the left.
std::string TextTable(const std::vector<TextRow>& rows, const std::vector<bool>& right = {});

}  // namespace bulkhead::tools
