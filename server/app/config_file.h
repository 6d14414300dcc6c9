#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace bulkhead {

// Sets the options of `app`, which has parsed no command line, from a YAML file. A key is an
// option's long name; nested keys are joined by dashes, and underscores are dashes:
//
//   worker: {quota: 512MiB, hang_timeout: 30}     # --worker-quota 512MiB --worker-hang-timeout 30
//   root: [/data/a, /data/b]                      # --root /data/a --root /data/b
//   insecure-tcp: true                            # --insecure-tcp
//
// Errors: INVALID_ARGUMENT, as "file:line:column: key: what is wrong", for a file that cannot be
// read or is not a YAML mapping, and for the first key that is unknown, repeated, or has an invalid
// value.
// `places`, if not null, gets "file:line:column" of each option's value, by its long name.
absl::Status ReadConfigFile(const std::string& path, CLI::App& app,
                            std::map<std::string, std::string>* places = nullptr);

}  // namespace bulkhead
