#include "server/image/kept/kept_files.h"

#include <chrono>
#include <utility>

namespace bulkhead {
namespace {

// Adds the time until it is destroyed to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

void KeptFiles::SetStore(ValueStore* store, bool all) {
  store_ = store;
  all_ = all;
}

bool KeptFiles::Expect(const StoreKey& state) {
  if (store_ == nullptr || !(all_ || policy_.LooksSoon())) return false;
  // If few files are looked for, these looks belong to no look of theirs.
  double untold = 0;
  const Stopwatch watch(looks() ? look_seconds_ : untold);
  jpeg::FileNote note;
  if (!store_->Find(state, expected_bytes_) || !note.Parse(expected_bytes_)) return false;
  store_->Expect(note.coefficients);
  // One of the next files may be decoded anew.
  return all_ || policy_.LooksOnly();
}

const jpeg::FileNote* KeptFiles::FindNote(const StoreKey& state) {
  const Stopwatch watch(look_seconds_);
  return store_->Find(state, bytes_) && note_.Parse(bytes_) ? &note_ : nullptr;
}

bool KeptFiles::Has(const StoreKey& coefficients) {
  const Stopwatch watch(look_seconds_);
  return store_->Has(coefficients);
}

void KeptFiles::AddNote(const StoreKey& state, const StoreKey& coefficients, int orientation,
                        absl::string_view file) {
  if (!store_->HasRoom() || store_->Find(state, bytes_)) return;  // Has may mean a damaged one
  jpeg::FileNote::Write(coefficients, orientation, file, bytes_);
  store_->Add(state, bytes_);
}

absl::StatusOr<absl::string_view> KeptFiles::Read(FileBytes& file) {
  read_seconds_ = 0;
  const Stopwatch watch(read_seconds_);
  return file.Get();
}

void KeptFiles::NoteKept(double seconds, uint64_t mcus, const StoreKey& coefficients) {
  if (policy_.is_slow()) store_->Warm(coefficients);
  const double before = std::exchange(look_seconds_, 0) + std::exchange(read_seconds_, 0);
  policy_.NoteKept(before + seconds, mcus);
}

void KeptFiles::NoteVain(uint64_t mcus) { policy_.NoteVain(std::exchange(look_seconds_, 0), mcus); }

void KeptFiles::NoteAnew(double seconds, uint64_t mcus) {
  policy_.NoteAnew(std::exchange(read_seconds_, 0) + seconds, mcus);
}

void KeptFiles::NoteMaking(double seconds, uint64_t mcus) {
  policy_.NoteMaking(std::exchange(read_seconds_, 0) + seconds, mcus);
}

}  // namespace bulkhead
