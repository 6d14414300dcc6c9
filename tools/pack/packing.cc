#include "tools/pack/packing.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/checksum.h"
#include "server/base/error.h"
#include "server/base/record_name.h"
#include "server/os/files/fd.h"
#include "server/os/files/filesystem.h"
#include "server/os/monotonic_wait.h"
#include "server/source/file.h"
#include "server/source/records/record_stream.h"
#include "server/source/tfrecord/tfrecord_format.h"
#include "server/source/tfrecord/tfrecord_writer.h"
#include "server/spec/yaml/yaml.h"
#include "tools/common/count_text.h"
#include "tools/pack/file_plan.h"
#include "tools/pack/packing_mark.h"

namespace bulkhead::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kMark[] = ".packing";
constexpr char kDone[] = ".packed";  // the mark, when all is written
constexpr char kSpec[] = "packed.yaml";
constexpr absl::string_view kUnfinished = ".unfinished";
constexpr absl::Duration kBetweenReports = absl::Milliseconds(200);

// What a file holds: as many records, and their bytes one after the other.
struct Content {
  uint64_t records = 0;
  uint32_t crc = 0;

  void Add(absl::string_view record) {
    ++records;
    crc = Crc32c(record, crc);
  }
  bool operator==(const Content& other) const = default;
};

absl::Status WrongBytes(const std::string& path) {
  return absl::DataLossError(absl::StrCat(
      path, ": does not read as it was written; is the disk in order? Run the same command again"));
}

// Reads a file of records back.
absl::StatusOr<Content> ReadBack(const std::string& path) {
  BULKHEAD_ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path, path));
  const auto stream = NewRecordStream(file, v1::COMPRESSION_NONE, nullptr);
  Content content;
  std::string record;
  for (char frame[kFrameBytes];;) {
    BULKHEAD_ASSIGN_OR_RETURN(const size_t got, stream->Read(frame, kFrameHeaderBytes));
    if (got == 0) return content;
    const bool whole = got == kFrameHeaderBytes && FrameHeaderIsValid(frame);
    const uint64_t size = whole ? LoadLittle<uint64_t>(frame) : 0;
    if (!whole || size > *stream->remaining()) return WrongBytes(path);
    record.resize(size);
    BULKHEAD_RETURN_IF_ERROR(stream->Read(record.data(), record.size()).status());
    BULKHEAD_ASSIGN_OR_RETURN(const size_t tail, stream->Read(frame, kFrameFooterBytes));
    if (tail < kFrameFooterBytes || LoadLittle<uint32_t>(frame) != MaskCrc32c(Crc32c(record))) {
      return WrongBytes(path);
    }
    content.Add(record);
  }
}

class PackingRun {
 public:
  PackingRun(const RecordSupply& supply, const PackingOptions& options)
      : supply_(supply), options_(options), out_(options.out) {}

  absl::StatusOr<Packed> Run(PackProgressFn progress) {
    BULKHEAD_RETURN_IF_ERROR(Lock());
    BULKHEAD_RETURN_IF_ERROR(Begin());
    const int threads = options_.threads;
    std::vector<std::thread> running;
    for (int i = 0; i < threads; ++i) running.emplace_back([this] { WriteFiles(); });
    {
      absl::MutexLock lock(&mutex_);
      const auto all_done = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return done_ == threads; };
      while (!AwaitFor(mutex_, all_done, kBetweenReports)) {
        progress(written_.load());
      }
    }
    for (std::thread& thread : running) thread.join();
    absl::MutexLock lock(&mutex_);
    BULKHEAD_RETURN_IF_ERROR(status_);
    BULKHEAD_ASSIGN_OR_RETURN(const bool wrote, End());
    const bool was_whole = was_done_ && kept_files_ == files_.size() && !wrote;
    return Packed{files_.size(), kept_files_.load(), was_whole, stale_files_};
  }

 private:
  // Makes the folder, and keeps other runs out of it.
  absl::Status Lock() {
    std::error_code error;
    fs::create_directories(out_, error);
    folder_ = UniqueFd(open(out_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) {
      return absl::FailedPreconditionError(
          absl::StrCat(out_.string(), ": is no folder that can be written to: ",
                       error ? error.message() : std::strerror(errno)));
    }
    // A file system without locks lets anyone in.
    if (flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      return absl::FailedPreconditionError(
          absl::StrCat(out_.string(),
                       ": another `bulkhead pack` writes to this folder; wait for "
                       "it, or name another one"));
    }
    return absl::OkStatus();
  }

  // Finds in the folder what an earlier run of this packing has left.
  absl::Status Begin() {
    PackingMark mark(options_.data, Settings());
    std::error_code error;
    std::ostringstream found;
    for (const char* const name : {kMark, kDone}) {
      if (!fs::exists(out_ / name, error)) continue;
      was_done_ = name == kDone;
      found << std::ifstream(out_ / name).rdbuf();
      return GoOn(PackingMark::Parse(found.str()), mark);
    }
    if (!fs::is_empty(out_, error) || error) {
      return absl::FailedPreconditionError(
          absl::StrCat(out_.string(), ": is not an empty folder; name another one"));
    }
    BULKHEAD_RETURN_IF_ERROR(Plan(mark));
    return Write(out_ / kMark, mark.Text());
  }

  // What decides how records are written, and how many a file has.
  std::map<std::string, Setting> Settings() const {
    std::map<std::string, Setting> settings = supply_.settings();
    if (options_.file_bytes > 0) {
      settings["--file-size"] = {absl::StrCat(options_.file_bytes, "B")};
    } else {
      settings["--records"] = {absl::StrCat(options_.records_a_file)};
    }
    return settings;
  }

  absl::Status Plan(PackingMark& mark) {
    BULKHEAD_ASSIGN_OR_RETURN(files_,
                              PlanFiles(supply_, options_.records_a_file, options_.file_bytes));
    mark.SetFiles(supply_, files_);
    return absl::OkStatus();
  }

  // An unfinished packing loses the files that would be other ones now; a finished one has none.
  absl::Status GoOn(const PackingMark& earlier, PackingMark& mark) {
    if (earlier.data().empty() && !mark.data().empty()) {
      return Other("of another version of `bulkhead pack`", "");
    }
    const std::string others =
        mark.data() == earlier.data()
            ? ""
            : absl::StrCat("of ", Printable(earlier.data()), ", not of ", Printable(mark.data()));
    const std::vector<std::string> differences = mark.DifferencesFrom(earlier);
    if (!differences.empty()) {
      return Other(absl::StrCat(others, others.empty() ? "" : ", and ",
                                "with other options: ", absl::StrJoin(differences, "; ")),
                   was_done_ ? "" : "give the earlier ones to go on; ");
    }
    BULKHEAD_RETURN_IF_ERROR(Plan(mark));
    const std::vector<std::string> stale = mark.StaleFiles(earlier);
    const auto is_whole = [&](const std::string& name) { return StatFile(out_ / name).ok(); };
    const auto written = std::count_if(stale.begin(), stale.end(), is_whole);
    const bool keeps_none = stale.size() == earlier.file_count();
    if (!others.empty() && keeps_none && (was_done_ || written > 0)) return Other(others, "");
    if (was_done_ && (!stale.empty() || mark.file_count() > earlier.file_count())) {
      return Other(
          absl::StrCat("of these data, which have changed since: ",
                       stale.empty() ? std::string("there are more of them")
                                     : absl::StrCat(CountText(stale.size(), "file"), " from ",
                                                    stale.front(), " on would have other records")),
          "");
    }
    if (was_done_) return absl::OkStatus();
    stale_files_ = static_cast<uint64_t>(written);
    for (const std::string& name : stale) BULKHEAD_RETURN_IF_ERROR(Remove(out_ / name));
    return Write(out_ / kMark, mark.Text());
  }

  // The folder holds a packing that is `other` than this one.
  absl::Status Other(absl::string_view other, absl::string_view advice) const {
    return absl::FailedPreconditionError(absl::StrCat(
        out_.string(), ": holds ", was_done_ ? "a finished" : "an unfinished", " packing ", other,
        "; ", advice, "to begin anew remove the folder, or name another one"));
  }

  static absl::Status Remove(const fs::path& path) {
    std::error_code error;
    fs::remove(path, error);
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(path.string(), ": ", error.message()));
  }

  // Writes what is written at the end; whether something was.
  absl::StatusOr<bool> End() const {
    std::vector<SideFile> files = supply_.side_files();
    files.push_back({kSpec, SpecToYaml(supply_.Spec())});
    std::error_code error;
    bool wrote = false;
    for (const SideFile& file : files) {
      // Of a finished packing they may have been changed since.
      if (was_done_ && fs::exists(out_ / file.name, error)) continue;
      BULKHEAD_RETURN_IF_ERROR(Write(out_ / file.name, file.text));
      wrote = true;
    }
    if (was_done_) return wrote;
    fs::rename(out_ / kMark, out_ / kDone, error);
    if (!error) return true;
    return absl::UnavailableError(absl::StrCat((out_ / kDone).string(), ": ", error.message()));
  }

  // All of it, or nothing.
  static absl::Status Write(const fs::path& path, const std::string& text) {
    const std::string unfinished = absl::StrCat(path.string(), kUnfinished);
    errno = 0;
    std::ofstream file(unfinished);
    file << text;
    file.close();
    if (file && std::rename(unfinished.c_str(), path.c_str()) == 0) return absl::OkStatus();
    const std::string why = errno == 0 ? "" : absl::StrCat(": ", std::strerror(errno));
    std::remove(unfinished.c_str());
    return absl::UnavailableError(absl::StrCat(path.string(), ": cannot be written", why));
  }

  // What each thread does, until there is nothing left or something failed.
  void WriteFiles() {
    const std::unique_ptr<RecordSupply::Reader> reader = supply_.NewReader();
    absl::Status status;
    for (uint64_t file = next_++; status.ok() && file < files_.size(); file = next_++) {
      status = WriteFile(files_[file], *reader);
    }
    if (!status.ok()) next_ = files_.size();  // the others stop, too
    absl::MutexLock lock(&mutex_);
    if (status_.ok()) status_ = status;
    ++done_;
  }

  absl::Status WriteFile(const PlannedFile& file, RecordSupply::Reader& reader) {
    const std::string path = (out_ / file.name).string();
    std::error_code error;
    // An earlier run's, which a disk may have lost since.
    if (const auto kept = ReadBack(path); kept.ok() && kept->records == file.end - file.first) {
      written_ += file.end - file.first;
      ++kept_files_;
      return absl::OkStatus();
    }
    const std::string unfinished = absl::StrCat(path, kUnfinished);
    reader.WillRead(file.first, file.end);
    BULKHEAD_ASSIGN_OR_RETURN(const auto writer, TfRecordWriter::Create(unfinished));
    Content content;
    for (uint64_t i = file.first; i < file.end; ++i) {
      BULKHEAD_ASSIGN_OR_RETURN(const std::string record, reader.Read(i));
      BULKHEAD_RETURN_IF_ERROR(writer->Write(record));
      content.Add(record);
      ++written_;
    }
    BULKHEAD_RETURN_IF_ERROR(writer->Close());
    BULKHEAD_ASSIGN_OR_RETURN(const Content found, ReadBack(unfinished));
    if (!(found == content)) return WrongBytes(unfinished);
    fs::rename(unfinished, path, error);
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
  }

  const RecordSupply& supply_;
  const PackingOptions& options_;
  const fs::path out_;
  UniqueFd folder_;                 // locked
  bool was_done_ = false;           // an earlier run has finished
  uint64_t stale_files_ = 0;        // of an earlier run, that were removed
  std::vector<PlannedFile> files_;  // before there are threads
  std::atomic<uint64_t> next_{0};   // file
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> kept_files_{0};
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // of the first that failed
  int done_ ABSL_GUARDED_BY(mutex_) = 0;         // threads
};

}  // namespace

absl::StatusOr<Packed> PackRecords(const RecordSupply& supply, const PackingOptions& options,
                                   PackProgressFn progress) {
  return PackingRun(supply, options).Run(progress);
}

}  // namespace bulkhead::tools
