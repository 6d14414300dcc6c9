#pragma once

#include <string>

#include "absl/time/time.h"

namespace bulkhead::client_internal {

// An embedded service listens at kServiceSocket in a folder of its own, which is called
// kServiceFolderPrefix and something, below the runtime folder or /tmp.
inline constexpr char kServiceFolderPrefix[] = "bulkhead-";
inline constexpr char kServiceSocket[] = "s.sock";
// Behind a service's socket path: its arena door.
inline constexpr char kDoorSuffix[] = ".arena";
// The same while the service starts.
inline constexpr char kStartLockSuffix[] = ".lock";

// Removes the folders of embedded services below `parent` that nobody could remove, because client
// and service were killed at once. Only those of this user, and only where connecting to a socket
// that is older than `min_age` is refused: a younger one may be about to listen.
void RemoveStaleFolders(const std::string& parent, absl::Duration min_age = absl::Minutes(1));

// Removes one such folder and the sockets in it, even if a process listens.
void RemoveServiceFolder(const std::string& folder);

}  // namespace bulkhead::client_internal
