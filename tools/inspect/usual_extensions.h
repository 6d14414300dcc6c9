#ifndef BULKHEAD_TOOLS_INSPECT_USUAL_EXTENSIONS_H_
#define BULKHEAD_TOOLS_INSPECT_USUAL_EXTENSIONS_H_

#include <set>
#include <string>

namespace bulkhead::tools {

// Endings that `image_folder` takes where a spec names none: "jpg", in lower case.
const std::set<std::string>& UsualExtensions();

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_INSPECT_USUAL_EXTENSIONS_H_
