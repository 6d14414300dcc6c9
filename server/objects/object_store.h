#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/objects/aws_file.h"
#include "server/objects/object_call.h"
#include "server/objects/store_config.h"
#include "server/objects/store_xml.h"

namespace bulkhead {

// An object as it was found.
struct ObjectInfo {
  std::string url;  // as the pattern, or the pattern's bucket and the key
  uint64_t size_bytes = 0;
  std::string etag;      // with its quotes; empty: the store has none
  int64_t mtime_ns = 0;  // in whole seconds; 0: unknown
};

// Which keys of a bucket are listed.
struct ListQuery {
  std::string folder;       // "s3://bucket/" or "s3://bucket/train/": what all begin with
  bool one_level = false;   // of keys in folders below it, only those folders
  std::string start_after;  // a key; only those behind it, by their bytes
  std::string token;        // Listing.next_token of the page before
};

// Finds, reads and writes the objects of s3://bucket/key, gs://bucket/key and http(s)://host/path.
//
//   auto store = ObjectStore::Create(*StoreConfig::FromEnvironment(getenv), getenv);
//   (*store)->Find("s3://bucket/train-*.tar", 1000, [&](auto found) { … (*store)->Read(…) … });
//   while (…) (*store)->Poll(absl::Seconds(1), socket);
//
// One thread uses a store. All callbacks are called from Poll; they may call all
// functions but Poll. Nothing blocks but Poll, and short reads of files with credentials. Requests
// that fail for a cause that may pass are sent again (object_call.h); errors are those of
// store_error.h, and their words say what to do. Destruction drops what is under way, without
// callbacks.
class ObjectStore {
 public:
  using Environment = bulkhead::Environment;
  using OnFound = std::function<void(absl::StatusOr<std::vector<ObjectInfo>>)>;
  using Sink = std::function<absl::Status(uint64_t offset, absl::string_view data)>;
  using OnListed = std::function<void(absl::StatusOr<Listing>)>;
  using OnRead = std::function<void(absl::Status)>;
  using OnPut = std::function<void(absl::Status)>;

  // FAILED_PRECONDITION, PLUGIN_MISSING: libcurl is not installed. Asks nothing yet.
  static absl::StatusOr<std::unique_ptr<ObjectStore>> Create(StoreConfig config,
                                                             Environment environment);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // The objects that match `pattern` (key_pattern.h), sorted by URL; perhaps none. Without a
  // wildcard it is the object itself, or NOT_FOUND. With wildcards it lists all keys that begin as
  // the pattern does before the first wildcard, so a pattern that begins with one reads the names
  // of the whole bucket. INVALID_ARGUMENT, SPEC_INVALID: `pattern` is no URL, or has a wildcard in
  // the path of http or https, which have no listing. RESOURCE_EXHAUSTED, SPEC_INVALID: more than
  // `most` objects match, or the listing has more than 10,000 pages.
  void Find(std::string pattern, size_t most, OnFound done);

  // One page of a listing of s3 or gs, of at most 1,000 keys, whole ones. INVALID_ARGUMENT,
  // SPEC_INVALID: `folder` is none.
  void List(const ListQuery& query, OnListed done);

  // Reads the bytes [begin, end) of `object`. `sink` gets all of them once, in order; an error of
  // the sink ends the read with this error. A later attempt asks for the bytes that are still
  // missing. FAILED_PRECONDITION, FILE_CHANGED: the store has another object there now, by its
  // ETag, its size or, without ETags, its time. FAILED_PRECONDITION, FILE_UNREADABLE: a server of
  // http that serves no ranges. INVALID_ARGUMENT: no range of the object.
  void Read(const ObjectInfo& object, uint64_t begin, uint64_t end, Sink sink, OnRead done);

  // Makes the object `url` of s3 or gs, or replaces it. INVALID_ARGUMENT, SPEC_INVALID: a URL of
  // http or https, or none.
  void Put(const std::string& url, std::string bytes, OnPut done);

  // Works on what was asked; waits up to `timeout` for something to happen if nothing did. True if
  // the socket `extra_fd` is readable or was closed by its peer; -1: none.
  bool Poll(absl::Duration timeout, int extra_fd);

  const StoreCounters& counters() const;

 private:
  struct State;
  explicit ObjectStore(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace bulkhead
