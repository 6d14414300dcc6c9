// The C++ client of a Bulkhead service.
//
//   bulkhead::LoaderOptions options;
//   options.spec = bulkhead::SpecFile("train.yaml");
//   auto loader = bulkhead::Loader::Open(std::move(options));
//   if (!loader.ok()) return loader.status();
//   for (;;) {
//     auto batch = (*loader)->Next(absl::Seconds(300));
//     if (!batch.ok()) return batch.status();
//     if (!batch->has_value()) break;  // the last epoch is delivered
//     Train((*batch)->Find("image")->data, …);
//   }
#ifndef BULKHEAD_CLIENT_CPP_BULKHEAD_LOADER_H_
#define BULKHEAD_CLIENT_CPP_BULKHEAD_LOADER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bulkhead/batch.h"
#include "bulkhead/credentials.h"
#include "bulkhead/error.h"
#include "bulkhead/stats.h"

namespace bulkhead {

namespace client_internal {
class Endpoint;
class LoaderStream;
}  // namespace client_internal

// The spec to load.
struct SpecSource {
  std::string path;  // read when the loader opens; empty: `text` is the spec
  std::string text;
  std::string base_dir;  // where relative paths in `text` start; empty: the current folder
};
// The YAML or JSON file at `path`; relative paths in it start from its own folder.
SpecSource SpecFile(std::string path);
// YAML or JSON; relative paths in it start from the current folder.
SpecSource SpecText(std::string text);

// How to start a service for this process. Loaders of one process with equal options share it.
// Unlike the Python client's, it is not shared with other processes. Its log survives it in `logs`
// in the cache folder - the newest 16 logs, 2 MiB each - and errors of its streams name it.
struct EmbeddedOptions {
  // The program. Empty: $BULKHEAD_SERVER, else `bulkheadd` on the PATH, beside the running program,
  // or in the folder `bin` beside its folder.
  std::string program;
  // Worker processes; 0: as many as this program needs, at first one per CPU.
  uint32_t workers = 0;
  uint32_t threads = 0;   // of each worker; 0: the service chooses
  std::string cache_dir;  // for record indexes, and for logs; empty: the service chooses
  // Each means what the flag of bulkheadd with its name means (docs/service.md), and messages of
  // the service advise it by its name here. Empty, or 0: the service's default.
  std::string worker_quota;             // "512MiB"
  std::string memory_budget;            // "8GiB"
  std::string block_cache_bytes;        // disk for data of buckets: "64GiB"; "0": none
  std::string coefficient_cache_bytes;  // disk for what decoding JPEGs gives: "64GiB"; "0": none
  absl::Duration worker_hang_timeout = absl::ZeroDuration();
  std::string sandbox;    // "seccomp,landlock"
  std::string metrics;    // an address for Prometheus: "127.0.0.1:9464"
  std::string log_level;  // "debug"
  // For stages of the user's own: the interpreter of Python functions (empty: python3), and the
  // folders from which modules and native stages may come.
  std::string python;
  std::vector<std::string> python_path;
  std::vector<std::string> native_path;
  bool trace_python = false;
};

// Progress of the preparation: what the service does before the first batch.
struct LoaderProgress {
  uint64_t files_done = 0;
  uint64_t files_total = 0;
  uint64_t records = 0;
  std::optional<absl::Duration> eta;
  std::string activity;  // for people
};

// A sample that could not be produced and was replaced by another (error policy `substitute`).
struct SubstitutionEvent {
  uint64_t epoch = 0;
  uint64_t position = 0;
  uint64_t substitute_position = 0;
  std::string message;  // what was wrong, with file and offset
  // Reason and metadata of the error (docs/errors.md): "CORRUPT_IMAGE"; "file", "offset", …
  std::string reason;
  std::map<std::string, std::string> metadata;
};

// A record that ended worker after worker, and is left out from now on (policy `substitute`). It is
// in the cursors from now on.
struct QuarantineEvent {
  std::string record;   // its name: "pos-003.tfrecord@81923"
  std::string message;  // what it did, for people
};

// A worker made no progress at a sample for so long that the service ended it; another takes over.
struct HangEvent {
  uint64_t epoch = 0;
  uint64_t position = 0;
  std::string message;  // file, offset and stage; for a Python stage, where its function was
};

// A line for the program's log: what a stage printed or logged, a summary of workers that died or
// were replaced. No batch depends on it. Lines are limited in number; those left out are counted in
// one that says so.
struct NoteEvent {
  enum class Level { kDebug, kInfo, kWarning, kError };
  Level level = Level::kInfo;
  std::string stage;  // "stages[1] python (augment:process)"; empty: the service says it
  // As the service says it: printable, and further lines are indented, unless it means harm.
  std::string text;
};

// How batches get here.
enum class Transport {
  kAuto,  // shared memory from a service at a unix: address that offers it, else gRPC
  kShm,   // shared memory: batches stay where the service's workers wrote them; nothing is copied
  kGrpc,  // as bytes on the connection
};
// "auto", "shm" or "grpc".
const char* TransportName(Transport transport);

struct LoaderOptions {
  SpecSource spec;
  // "host:port", "unix:/path" or the name of a target file (*.yaml; docs/security.md), which has
  // `credentials`, too. Several of them, separated by commas, also in the file, or
  // "dns:///name:port" for all addresses of a name, are replicas that make the stream together: the
  // batches and their order are those of one (docs/fleet.md). Empty: a service is started for this
  // process and ends with it; loaders with equal `embedded` options share it.
  std::string target;
  Credentials credentials;  // for a target
  EmbeddedOptions embedded;

  // Name of the consumer. With `rank` it identifies the stream to the service, where a newer stream
  // supersedes an older one. Empty: a unique name.
  std::string name;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  // JSON of Batch::cursor(). Empty: from the start.
  std::string cursor;
  // Continue although the cursor was made with other stages or outputs.
  bool allow_changed_bytes = false;
  // The samples are read just for what the service keeps of them: the coefficients of all JPEG
  // images, whatever time that takes.
  bool keeps_all = false;
  // Let the service make batches once for this loader and others of its spec, order, seed, rank and
  // world that stand near it and share, too. Bytes, order and cursors are the same as without
  // (docs/scaling.md). No effect with several replicas.
  bool share = false;

  // With kShm, Open fails with TRANSPORT_UNAVAILABLE instead of falling back to gRPC. After a lost
  // service the loader may still fall back; Loader::transport_reason() says why.
  Transport transport = Transport::kAuto;
  // The most batches, and bytes of batches, that this process holds, including those handed out and
  // not yet destroyed. One batch is always allowed. With shared memory the limit is the number of
  // slots of the stream's arena less one, if that is lower. With several replicas it holds two
  // batches more for each replica, and those handed out do not count.
  uint32_t credit_batches = 4;
  uint64_t credit_bytes = uint64_t{256} << 20;

  // Open fails when preparation makes no progress for this long. A service may index data for an
  // hour if it reports progress.
  absl::Duration open_deadline = absl::Seconds(300);
  // When the service is lost during the stream, or in Open after it answered: how long the loader
  // tries to reach it, or to start another embedded one, without a batch arriving. Time in which a
  // service makes progress with preparing does not count. Zero: the first loss is an error.
  absl::Duration reconnect_deadline = absl::Seconds(120);
  // A service sends something at least once a second. One that is silent for this long is treated
  // as lost (SERVICE_SILENT), as if its connection had broken. So is one whose heartbeats report a
  // silent supervisor for this long.
  absl::Duration silence_deadline = absl::Seconds(10);
  // How long Next waits while the program itself holds all batches that the stream allows.
  absl::Duration held_deadline = absl::Seconds(60);
  // Called on the thread that waits in Open.
  std::function<void(const LoaderProgress&)> on_progress;
  // Called on the loader's reader thread; must not block and must not call the loader.
  std::function<void(const SubstitutionEvent&)> on_substitution;
  // The same, once for each record that is quarantined while the loader lives.
  std::function<void(const QuarantineEvent&)> on_quarantine;
  // The same, each time a worker hangs.
  std::function<void(const HangEvent&)> on_hang;
  // The same, for each line for the program's log; on the thread that waits in Next when the
  // service was lost.
  std::function<void(const NoteEvent&)> on_note;
  // Called with a message for people, on the thread that waits in Next, when for some seconds no
  // batch could come because the program holds all that the stream allows. Must not call the
  // loader.
  std::function<void(const std::string&)> on_warning;
};

// What the service will take for a stream, in bytes.
struct StreamMemory {
  uint64_t slot_bytes = 0;
  uint32_t slot_count = 0;
  uint64_t arena_bytes = 0;
  uint64_t sample_bytes = 0;
  uint32_t workers = 0;
  uint32_t threads_per_worker = 0;
  uint64_t worker_quota_bytes = 0;
};

// What a stream delivers.
struct StreamInfo {
  std::vector<TensorInfo> tensors;
  uint64_t batch_size = 0;
  uint64_t batch_bytes = 0;
  uint64_t samples_per_epoch = 0;
  uint64_t batches_per_epoch = 0;      // on each rank, of a whole epoch
  uint64_t batches_left_in_epoch = 0;  // at the stream's start
  std::optional<uint64_t> epochs;      // absent: forever
  StreamMemory memory;
  std::string boot_id;  // changes when the service restarts; Loader::boot_id() is the current one
  std::string cursor;   // where the stream started, as JSON
  Transport transport = Transport::kGrpc;  // kShm or kGrpc; Loader::transport() is the current one
  std::string transport_reason;            // why not kShm, if kShm was preferred
};

// A stream of batches.
//
// Life: Open connects, waits until the service is prepared, and lets batches arrive ahead of Next,
// bounded by the credits. Close (or the destructor) ends the stream; batches that were handed out
// stay valid. After an error every Next returns that error again; another loader may be opened
// from the last cursor. One reader thread belongs to each loader.
//
// A lost service is not yet an error: the loader connects again by itself, continues after the last
// batch that arrived whole, and the caller sees only a longer wait. Errors of spec and data, and
// SUPERSEDED, are never retried; other data for the same spec is CURSOR_MISMATCH. Batches in shared
// memory that were handed out before the loss stay valid. If the service has no memory left for the
// stream that it had (BUDGET_EXCEEDED), the loader retries until LoaderOptions::reconnect_deadline,
// and then returns that error.
//
// A spec with `deterministic: false` delivers batches as they are completed: Batch::sequence() may
// skip ahead by fewer than 64 and come back, each comes once, and Batch::cursor() says which came.
//
// In a forked child of the process that opened it a loader cannot be used: Next returns FORKED, the
// destructor does nothing, and what the loader holds is not freed. gRPC does not survive a fork
// either, so the child cannot open another loader (FORKED as well): exec first, or fork before the
// first loader. Batches can be read and destroyed in the child, but a batch in shared memory keeps
// its content only as long as the parent holds it, too.
//
// Thread-safe. Batches are handed out in order, to any thread that calls Next.
class Loader {
 public:
  // Errors carry a reason (error.h): those of the service, and SERVICE_NOT_FOUND,
  // SERVICE_START_FAILED, SERVICE_UNAVAILABLE, SERVICE_SILENT, DEADLINE_EXCEEDED,
  // PROTOCOL_VIOLATION, INVALID_ARGUMENT, TRANSPORT_UNAVAILABLE, OUT_OF_THREADS, FORKED,
  // FILE_NOT_FOUND and FILE_UNREADABLE (the spec file).
  static absl::StatusOr<std::unique_ptr<Loader>> Open(LoaderOptions options);
  // Closes, and ends an embedded service that no other loader uses: by SIGTERM, after 10 s by
  // SIGKILL, and waits 10 s at most for the kernel to end it.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch; waits for it at most `deadline`. Nothing: the last epoch has been delivered.
  // After DEADLINE_EXCEEDED, SLOTS_EXHAUSTED (the program holds all batches that the stream allows,
  // and LoaderOptions::held_deadline or `deadline` has passed) and OUT_OF_THREADS the stream is
  // intact and Next may be called again.
  absl::StatusOr<std::optional<Batch>> Next(absl::Duration deadline);

  // Ends the stream. A Next that waits returns LOADER_CLOSED. May be called twice. Has no deadline,
  // since it does not wait for the service: the call is cancelled on this side. It waits for the
  // loader's threads, and so for a callback of the program that runs there, and for at most 2 s for
  // a promised arena.
  void Close();

  const StreamInfo& info() const;
  // Where the service listens, also an embedded one: for GetServiceStatus. An embedded service that
  // is started again has another address.
  std::string target() const;
  // Identifies the service that serves this loader now.
  std::string boot_id() const;
  // How batches get here now: kShm or kGrpc.
  Transport transport() const;
  // Why not kShm, if kShm was preferred.
  std::string transport_reason() const;
  // How often the loader has recovered from a lost service.
  uint64_t reconnects() const;
  // What the loader did so far: batches, bytes, time waited. Never waits for a batch. All zero in a
  // forked child.
  LoaderStats stats() const;

 private:
  Loader();
  bool Forked() const;  // whether this is a forked child of the process that opened it

  const int process_;
  std::shared_ptr<client_internal::Endpoint> endpoint_;
  std::unique_ptr<client_internal::LoaderStream> stream_;
};

}  // namespace bulkhead

#endif  // BULKHEAD_CLIENT_CPP_BULKHEAD_LOADER_H_
