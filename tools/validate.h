#ifndef BULKHEAD_TOOLS_VALIDATE_H_
#define BULKHEAD_TOOLS_VALIDATE_H_

#include <ostream>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace bulkhead {

// Adds `bulkhead validate FILE…` to `app`; running it sets `exit_code`.
void AddValidateCommand(CLI::App& app, int& exit_code);

// Checks each spec file ("-" is standard input) and writes to `out` what its batches will be, as a
// table or, with `json`, as one JSON array with an object a file. Problems go to `err`, one a line
// ("file:line:column: what is wrong"); with `json` they are in the objects as well. Returns the
// exit code: 0 when all are valid, else 1. Looks at the specs only, never at data.
int ValidateFiles(const std::vector<std::string>& files, bool json, std::ostream& out,
                  std::ostream& err);

}  // namespace bulkhead

#endif  // BULKHEAD_TOOLS_VALIDATE_H_
