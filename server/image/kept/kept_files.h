#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/file_bytes.h"
#include "server/base/value_store.h"
#include "server/image/jpeg/file_note.h"
#include "server/image/kept/coefficient_policy.h"

namespace bulkhead {

// What one thread's decoder knows of JPEG files whose coefficients may be kept: of which it should
// look for them, what is noted of a file, and how long each way takes. Not thread-safe.
class KeptFiles final : public KnownFiles {
 public:
  // `store` outlives this; null: nothing is kept. `all`: coefficients are looked for of each file.
  void SetStore(ValueStore* store, bool all);

  bool Expect(const StoreKey& state) override;
  // Whether the next file's coefficients should be looked for; whether those of most files are.
  bool ShouldLook() { return all_ || policy_.ShouldLook(); }
  bool looks() const { return all_ || policy_.looks(); }

  // The note of a file in that state, which stays valid until the next call; null if there is none.
  const jpeg::FileNote* FindNote(const StoreKey& state);
  // Whether coefficients seem to be kept.
  bool Has(const StoreKey& coefficients);
  // Keeps a note of a file in that state, unless there is one or no room.
  void AddNote(const StoreKey& state, const StoreKey& coefficients, int orientation,
               absl::string_view file);
  // FileBytes::Get, whose time is part of what a decode takes without anything that is kept.
  absl::StatusOr<absl::string_view> Read(FileBytes& file);
  // The next file's bytes were not read here.
  void ForgetRead() { read_seconds_ = 0; }

  // CoefficientPolicy's, of a file whose decode took `seconds`; the time of looks and of reading
  // the file, which took place here, is added.
  void NoteKept(double seconds, uint64_t mcus, const StoreKey& coefficients);
  void NoteVain(uint64_t mcus);
  void NoteAnew(double seconds, uint64_t mcus);
  void NoteMaking(double seconds, uint64_t mcus);
  bool MayMake(double now) { return policy_.MayMake(now); }

 private:
  ValueStore* store_ = nullptr;
  bool all_ = false;
  std::string bytes_;
  jpeg::FileNote note_;  // a view of bytes_
  std::string expected_bytes_;
  double look_seconds_ = 0;  // of looks whose outcome is not noted yet
  double read_seconds_ = 0;  // of the file
  CoefficientPolicy policy_;
};

}  // namespace bulkhead
