#ifndef BULKHEAD_TOOLS_SCHEMA_SCHEMA_COMMAND_H_
#define BULKHEAD_TOOLS_SCHEMA_SCHEMA_COMMAND_H_

#include <CLI/CLI.hpp>

namespace bulkhead::tools {

// Adds `bulkhead schema`: prints the JSON Schema of specs (docs/spec.schema.json), with which
// editors complete and check them.
void AddSchemaCommand(CLI::App& app);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_SCHEMA_SCHEMA_COMMAND_H_
