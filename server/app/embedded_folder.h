#ifndef BULKHEAD_SERVER_APP_EMBEDDED_FOLDER_H_
#define BULKHEAD_SERVER_APP_EMBEDDED_FOLDER_H_

#include <string>

namespace bulkhead {

// The client that starts an embedded service makes a folder for its socket, and removes it; a
// client that was killed cannot, so the service does it as well.
//
//   of one process   bulkhead-XXXXXXXX/  s.sock  s.sock.arena  lock
//   of several       bulkhead-HASH/      ID.sock  ID.sock.arena  ID.lock  ID.log   of each service
//                                        spawn    locked by who starts, joins, ends or removes
//                                        current  which service is to be joined
//
// `watch_lock` is ID.lock; empty for a service of one process.

// Removes what belongs to the service at `address`, and the folder unless another needs it: it
// holds anything else, or a process has `spawn` locked. Folders with other names are left alone.
void RemoveEmbeddedFolder(const std::string& address, const std::string& watch_lock);

// Keeps ID.log, where what the service at `address` says goes, from growing without bound: cuts it
// to its last 8 KiB when it has more than 1 MiB. Logs beside other locks are left alone.
void TrimEmbeddedLog(const std::string& address, const std::string& watch_lock);

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_APP_EMBEDDED_FOLDER_H_
