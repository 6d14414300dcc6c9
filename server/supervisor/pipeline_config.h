#ifndef BULKHEAD_SERVER_SUPERVISOR_PIPELINE_CONFIG_H_
#define BULKHEAD_SERVER_SUPERVISOR_PIPELINE_CONFIG_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "bulkhead/v1/loader.pb.h"
#include "server/cache/segment_folder.h"
#include "server/os/files/fd_parcel.h"

namespace bulkhead {

// What the workers of one pipeline are.
struct PipelineConfig {
  // Equal keys mean the same pipeline: its workers are shared.
  std::string key;
  // Short name for logs and the status page.
  std::string name;
  // Serialized internal.v1.PipelineBinding.
  std::string binding;
  uint32_t workers = 1;
  uint32_t threads = 1;
  uint64_t quota_bytes = 0;
  // Shared memory that a worker may map beside arenas: its indexes, should they lie on a tmpfs.
  uint64_t mapped_bytes = 0;
  // Those indexes, open, in the order of IndexPaths: workers that come later need them whatever
  // becomes of their folder. Empty: workers open them by their paths.
  std::vector<SharedFd> index_fds;
  // What its stages are called: its workers name others in vain.
  std::set<std::string> stages;
  bool attribution = true;  // allocations are counted by stage
  bool python = false;      // it has stages of Python
  // The user's files that are known of the pipeline, as they are on the disk; without a digest:
  // gone.
  std::vector<v1::CodeFile> code;
  std::string user_code;  // its functions and libraries of the user's, for people; empty: none
  // It has batch stages: a lease is a whole batch, and all threads of a worker are at one.
  bool whole_batches = false;
  bool seeks = false;   // it decodes parts of JPEG images, so that seek entries are of use
  bool caches = false;  // it has cache stages
  // Of what its workers write to caches (SegmentFolder): its own where it runs code of the user's.
  std::string trust_domain = SegmentFolder::kBuiltIn;

  // Leases that a worker may hold: what its threads work on, and as many waiting so that none runs
  // dry while a message travels.
  uint32_t LeasesOfWorker() const { return 2 * (whole_batches ? 1 : threads); }
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_SUPERVISOR_PIPELINE_CONFIG_H_
