#include <cstdio>
#include <memory>

#include "tools/common/commands.h"
#include "tools/schema/spec_schema.h"

namespace bulkhead::tools {

Command SchemaCommand() {
  const auto json = std::make_shared<bool>(false);
  return {.name = "schema",
          .about = "Print the JSON Schema of specs, with which editors complete and check them",
          .more =
              "For VS Code's YAML extension, Neovim and others with yaml-language-server: write "
              "it to a\n"
              "file, and name that in the first line of a spec.\n\n"
              "Example:\n"
              "  bulkhead schema > bulkhead.schema.json\n"
              "  # yaml-language-server: $schema=bulkhead.schema.json\n",
          .options = {{"--json", "Print JSON, as a schema is anyway", Flag(*json)}},
          .run = [json] {
            for (const char* const line : SpecSchemaLines()) std::puts(line);
            return absl::StatusOr<int>(0);
          }};
}

}  // namespace bulkhead::tools
