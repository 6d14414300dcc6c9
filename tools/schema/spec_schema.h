#ifndef BULKHEAD_TOOLS_SCHEMA_SPEC_SCHEMA_H_
#define BULKHEAD_TOOLS_SCHEMA_SPEC_SCHEMA_H_

#include <vector>

namespace bulkhead::tools {

// docs/spec.schema.json, which the build puts into the program.
std::vector<const char*> SpecSchemaLines();

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_SCHEMA_SPEC_SCHEMA_H_
