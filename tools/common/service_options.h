#pragma once

#include <string>
#include <vector>

#include "bulkhead/loader.h"
#include "tools/common/options.h"
#include "tools/common/progress_line.h"
#include "tools/common/user_code_options.h"

namespace bulkhead::tools {

// A message of the client library, which names fields of EmbeddedOptions: commands have a flag for
// each that is advised.
std::string InFlags(const std::string& message);

// --transport, for commands that always start services of their own.
Option TransportOption(Transport& transport);

// The service that makes a command's samples: a running one, or one of its own.
struct ServiceOptions {
  std::string target;  // empty: its own
  Transport transport = Transport::kAuto;
  EmbeddedOptions own;  // as far as it is said here
  double hang_seconds = 0;
  UserCodeOptions code;

  // --target, --transport, and those of OwnOptions, which --target excludes. This object must
  // outlive them.
  std::vector<Option> Options();
  // Those of a service of its own, with those of UserCodeOptions: what messages of it advise.
  std::vector<Option> OwnOptions();

  EmbeddedOptions Embedded() const;
  // Of a stream of `spec`. What befalls the stream - substitutions, quarantine, hung workers, the
  // notes that a trainer would log - is printed to standard error, and how far the preparation is
  // to `line`, which must outlive the loader.
  LoaderOptions ForLoader(SpecSource spec, ProgressLine& line) const;
};

}  // namespace bulkhead::tools
