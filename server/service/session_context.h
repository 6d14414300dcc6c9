#ifndef BULKHEAD_SERVER_SERVICE_SESSION_CONTEXT_H_
#define BULKHEAD_SERVER_SERVICE_SESSION_CONTEXT_H_

#include <memory>
#include <string>

#include "server/os/event_loop.h"
#include "server/os/files/io_thread.h"
#include "server/os/files/storage_watch.h"
#include "server/service/arena_door.h"
#include "server/service/preparation.h"
#include "server/service/quarantine_store.h"
#include "server/service/session_registry.h"
#include "server/service/stream_directory.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

// What a session needs of its service; outlives every session.
struct SessionContext {
  const Preparer* preparer = nullptr;
  Supervisor* supervisor = nullptr;
  SessionRegistry* sessions = nullptr;
  StreamDirectory* directory = nullptr;
  // Where clients get at their arenas; null when the service has no door.
  ArenaDoor* door = nullptr;
  // For timers of sessions; its thread runs as long as the service.
  EventLoop* loop = nullptr;
  // Shared: what streams add is saved by threads that may outlive the service.
  std::shared_ptr<QuarantineStore> quarantine;
  // For what may wait for the cache folder's disk.
  std::shared_ptr<IoThread> io;
  // Watches the calls to storage of threads that open.
  StorageWatch* storage = nullptr;
  std::string boot_id;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SERVICE_SESSION_CONTEXT_H_
