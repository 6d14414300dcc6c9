#pragma once

#include <vector>

namespace bulkhead::tools {

// docs/spec.schema.json, which the build puts into the program.
std::vector<const char*> SpecSchemaLines();

}  // namespace bulkhead::tools
