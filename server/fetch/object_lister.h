#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bulkhead/internal/v1/fetch.pb.h"
#include "server/objects/object_store.h"

namespace bulkhead {

// Makes tables of objects (server/blocks/object_table.h):
//
//   a folder  ─▶ one listing of its first level ─▶ a listing of each folder in it, 32 at a time
//   URLs      ─▶ sorted ─▶ of a folder: pages of 1,000 keys, each from the next key that is wanted;
//                of a web server, of a few keys, or where listing is not allowed: one question each
//
// Objects that do not exist are not in the table. Used by one thread, the store's, which it blocks
// while it sorts: 1 s for a million names. Takes 16 bytes for each object.
class ObjectLister {
 public:
  // How many objects there are so far; or the key of the table.
  using Progress = std::function<void(uint64_t id, uint64_t objects)>;
  using Done = std::function<void(uint64_t id, absl::StatusOr<std::string> key, uint64_t objects)>;

  // Tables are written to `folder`. `done` is called once for each List, by List itself or from the
  // store's Poll.
  ObjectLister(ObjectStore& store, std::string folder, Progress progress, Done done);
  ~ObjectLister();

  // `urls_fd`: the file of URLs if no folder is listed, for this call alone.
  void List(const internal::v1::ListObjects& message, int urls_fd);
  // Drops what was asked for. An unknown one is ignored.
  void Release(uint64_t id);
  // Calls `progress` of all.
  void Report() const;

 private:
  class Task;
  class FolderTask;
  class UrlsTask;

  ObjectStore& store_;
  const std::string folder_;
  const Progress progress_;
  const Done done_;
  std::map<uint64_t, std::shared_ptr<Task>> tasks_;
};

}  // namespace bulkhead
