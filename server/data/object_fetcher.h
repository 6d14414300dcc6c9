#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "bulkhead/internal/v1/fetch.pb.h"
#include "server/data/fetch_child.h"
#include "server/data/object_uses.h"
#include "server/os/files/fd_parcel.h"

namespace bulkhead {

// The process bulkhead-fetch as its service sees it. It is started by the first request, and again
// when it ends: all requests that have no answer are then sent again, and the parts that are kept
// are looked at. So its death delays batches, and changes nothing.
//
//   Find ─▶ objects      List ─▶ table      Fetch ─▶ done ─▶ … ─▶ Release      Put ─▶ done
//
// Thread-safe. Callbacks are called on a thread of this object, and must not block.
class ObjectFetcher {
 public:
  struct Config : FetchChild::Config {
    // Called once, when the process is needed: the result holds its quota's place in the budget. An
    // error is that of each request. May be empty.
    std::function<absl::StatusOr<std::shared_ptr<void>>()> admit;
  };
  using Done = std::function<void(const absl::Status&)>;
  class Question;
  using Parts = google::protobuf::RepeatedPtrField<internal::v1::FetchParts::Part>;

  explicit ObjectFetcher(Config config);
  // Ends the process. Callbacks that were not called yet never are.
  ~ObjectFetcher();
  ObjectFetcher(const ObjectFetcher&) = delete;
  ObjectFetcher& operator=(const ObjectFetcher&) = delete;

  // The objects that match `pattern`, by name, with the paths where their blocks will lie. Blocks;
  // CANCELLED soon after `cancelled` returns true. Errors: those of the store (FILE_NOT_FOUND of an
  // object that is named without wildcards, FILE_UNREADABLE), with what to do.
  absl::StatusOr<std::vector<internal::v1::ResolvedFile>> Find(
      const std::string& pattern, const std::function<bool()>& cancelled);

  // The same for each of several patterns, all at once. CANCELLED.
  using Found = absl::StatusOr<std::vector<internal::v1::ResolvedFile>>;
  absl::StatusOr<std::vector<Found>> FindAll(const std::vector<std::string>& patterns,
                                             const std::function<bool()>& cancelled);

  // Makes a table of the objects of `list`, whose id is filled in; `urls` is its file, or null.
  // Blocks; calls `progress` ten times a second. Errors: those of the store; RESOURCE_EXHAUSTED if
  // there are too many, or the disk is full; CANCELLED. Nobody removes the table before Use, unless
  // many others are listed meanwhile.
  absl::StatusOr<internal::v1::TableOfObjects> List(
      internal::v1::ListObjects list, SharedFd urls,
      const std::function<void(uint64_t objects)>& progress,
      const std::function<bool()>& cancelled);

  // Brings the parts to this host and keeps them there until Release; `done` says that they are
  // there. Returns the request's number.
  using Trust = internal::v1::FetchParts::Trust;
  uint64_t Fetch(const Parts& parts, Trust trust, Done done);
  void Release(uint64_t id);

  // The objects and tables of these keys are in use while the result lives. Those that no other
  // result has are then removed when room is needed.
  std::shared_ptr<void> Use(std::vector<std::string> keys);

  // A whole object: begins to fetch it, and keeps it until this goes.
  class WholeFetch {
   public:
    // `fetcher` must outlive this.
    WholeFetch(ObjectFetcher& fetcher, const internal::v1::ResolvedFile& file,
               Trust trust = internal::v1::FetchParts::TRUST_UNSPECIFIED);
    ~WholeFetch();

    // Blocks until it is here. Errors as Fetch's; CANCELLED.
    absl::Status Wait(const std::function<bool()>& cancelled);

   private:
    absl::StatusOr<std::unique_ptr<Question>> question_;
  };

  // Makes or replaces the object `url` of s3 or gs. Blocks. Errors: those of the store; CANCELLED.
  absl::Status Put(const std::string& url, std::string content,
                   const std::function<bool()>& cancelled);

  // What the process has done so far; false while it has not been needed.
  bool Describe(v1::ObjectReads& reads) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Starts it if need be.
  absl::StatusOr<FetchChild*> Started() ABSL_LOCKS_EXCLUDED(mutex_);

  const Config config_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<void> admission_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<FetchChild> process_ ABSL_GUARDED_BY(mutex_);  // null: not needed yet
  const std::shared_ptr<ObjectUses> uses_;
};

// The part of an object that holds all of it, or nothing yet.
internal::v1::FetchParts::Part PartOf(const internal::v1::ResolvedFile& file);

}  // namespace bulkhead
