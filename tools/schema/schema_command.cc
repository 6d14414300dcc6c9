#include "tools/schema/schema_command.h"

#include <cstdio>

#include "tools/schema/spec_schema.h"

namespace bulkhead::tools {

void AddSchemaCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "schema", "Print the JSON Schema of specs, with which editors complete and check them");
  command->footer(
      "For VS Code's YAML extension, Neovim and others with yaml-language-server: write it to a\n"
      "file, and name that in the first line of a spec.\n\n"
      "  bulkhead schema > bulkhead.schema.json\n"
      "  # yaml-language-server: $schema=bulkhead.schema.json\n");
  command->callback([] {
    for (const char* const line : SpecSchemaLines()) std::puts(line);
  });
}

}  // namespace bulkhead::tools
