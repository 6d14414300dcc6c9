#pragma once

#include <string>

namespace bulkhead {

// The client that starts an embedded service creates a folder for its socket and removes it. A
// killed client cannot remove it, so the service does so, too.
//
//   of one process   bulkhead-XXXXXXXX/  s.sock  s.sock.arena  lock
//   of several       bulkhead-HASH/      ID.sock  ID.sock.arena  ID.lock  ID.log   of each service
// spawn    locked to start, join, end or remove one
// current  names the service to join
//
// `watch_lock` is ID.lock; empty for a service of one process.

// Removes the files of the service at `address`, and the folder unless another service needs it:
// the folder holds anything else, or a process has `spawn` locked. Folders with other names are
// left alone.
void RemoveEmbeddedFolder(const std::string& address, const std::string& watch_lock);

// Bounds the size of ID.log, which gets the output of the service at `address`: cuts it to its last
// 8 KiB when it has more than 1 MiB. Other logs are left alone.
void TrimEmbeddedLog(const std::string& address, const std::string& watch_lock);

}  // namespace bulkhead
