#include "tools/local/confinement.h"

#include "server/base/error.h"
#include "server/os/sandbox/sandbox_parts.h"

namespace bulkhead::tools {

absl::StatusOr<Confinement> Confinement::Of(const UserCodeOptions& options,
                                            const std::string& scratch) {
  BULKHEAD_ASSIGN_OR_RETURN(const SandboxOptions parts,
                            ParseSandboxParts(options.sandbox.empty() ? "all" : options.sandbox));
  Confinement confinement;
  confinement.bind.set_threads(1);
  internal::v1::Sandbox& sandbox = *confinement.bind.mutable_sandbox();
  sandbox.set_seccomp(parts.seccomp);
  sandbox.set_landlock(parts.landlock);
  sandbox.set_capabilities(parts.capabilities);
  sandbox.set_scratch(scratch);
  confinement.binding.mutable_source()->mutable_range();
  confinement.binding.mutable_resolved()->add_roots("/");
  return confinement;
}

}  // namespace bulkhead::tools
