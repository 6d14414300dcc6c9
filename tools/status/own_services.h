#ifndef BULKHEAD_TOOLS_STATUS_OWN_SERVICES_H_
#define BULKHEAD_TOOLS_STATUS_OWN_SERVICES_H_

#include <string>
#include <vector>

namespace bulkhead::tools {

// The targets of the services that this user's trainers have started for themselves, sorted. Each
// has a folder `bulkhead-…` of mode 0700 in one of `parents`, with its socket: s.sock, or ID.sock
// where processes share it (server/app/embedded_folder.h). What a dead service left there does not
// answer and is passed over.
std::vector<std::string> EmbeddedTargets(const std::vector<std::string>& parents);

// Where clients make these folders: $XDG_RUNTIME_DIR and /tmp.
std::vector<std::string> EmbeddedParents();

// Whether a process listens at "unix:/path".
bool Listens(const std::string& target);

}  // namespace bulkhead::tools

#endif  // BULKHEAD_TOOLS_STATUS_OWN_SERVICES_H_
