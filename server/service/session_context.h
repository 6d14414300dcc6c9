#pragma once

#include <memory>
#include <string>

#include "server/doors/arena_door.h"
#include "server/os/event_loop.h"
#include "server/os/files/io_thread.h"
#include "server/os/files/storage_watch.h"
#include "server/service/access/access_rights.h"
#include "server/service/datasets/dataset_store.h"
#include "server/service/limits/peers.h"
#include "server/service/limits/repeated_lines.h"
#include "server/service/limits/request_memory.h"
#include "server/service/preparation.h"
#include "server/service/quarantine_store.h"
#include "server/service/session_registry.h"
#include "server/service/stream_counts.h"
#include "server/service/stream_directory.h"
#include "server/supervisor/supervisor.h"

namespace bulkhead {

// The parts of the service that a session uses; outlives every session.
struct SessionContext {
  const Preparer* preparer = nullptr;
  Supervisor* supervisor = nullptr;
  SessionRegistry* sessions = nullptr;
  RequestMemory* request_memory = nullptr;
  StreamDirectory* directory = nullptr;
  StreamCounts* stream_counts = nullptr;
  RepeatedLines* refusal_lines = nullptr;
  // Which clients may make which calls.
  AccessRights access;
  // Names for clients that have none (Peers).
  Peers* peers = nullptr;
  // What clients brought by PutDataset.
  DatasetStore* datasets = nullptr;
  // Gives clients their arenas; null: the service has no door.
  ArenaDoor* door = nullptr;
  // Runs the sessions' timers for as long as the service runs.
  EventLoop* loop = nullptr;
  // Shared, because threads that save additions may outlive the service.
  std::shared_ptr<QuarantineStore> quarantine;
  // Runs what may block on the cache folder's disk.
  std::shared_ptr<IoThread> io;
  // Watches storage calls of the threads that open streams.
  StorageWatch* storage = nullptr;
  std::string boot_id;
};

}  // namespace bulkhead
