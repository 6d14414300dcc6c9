#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/common/options.h"

namespace bulkhead::tools {

// The targets of the services that this user's trainers have started for themselves, sorted. Each
// has a folder `bulkhead-…` of mode 0700 in one of `parents`, with its socket: s.sock, or ID.sock
// where processes share it (server/doors/embedded_folder.h). What a dead service left there does
// not answer and is passed over.
std::vector<std::string> EmbeddedTargets(const std::vector<std::string>& parents);

// Where clients make these folders: $XDG_RUNTIME_DIR and /tmp, once where they are the same.
std::vector<std::string> EmbeddedParents();

// Where a service of this user listens that was started without --listen
// (server/app/server_config.cc).
std::string DefaultTarget();

// The targets of all services of this user on this machine: the one at DefaultTarget(), those of
// trainers, then those that were started with another --listen, on TCP last.
std::vector<std::string> OwnTargets();

// The only one of `targets`, services of this user. NOT_FOUND when there is none,
// FAILED_PRECONDITION when there are several, with all of them.
absl::StatusOr<std::string> OnlyService(const std::vector<std::string>& targets);

// The service that a command asks: `target`, or, where that is empty, the only one of
// OwnTargets().
// Errors: those of OnlyService.
absl::StatusOr<std::string> FindService(const std::string& target);

// --target of commands that use FindService.
Option FoundTargetOption(std::string& target);

}  // namespace bulkhead::tools
