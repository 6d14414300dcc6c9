#ifndef BULKHEAD_SERVER_IMAGE_CODECS_COEFFICIENT_POLICY_H_
#define BULKHEAD_SERVER_IMAGE_CODECS_COEFFICIENT_POLICY_H_

#include <algorithm>
#include <cstdint>

namespace bulkhead {

// Decides, by measured times, which files are decoded by coefficients that are kept of them, and of
// which files they are made. Reading them may be slower than decoding the file anew, if they lie on
// a slow disk; and making and writing them holds up the samples. Pure; used by one thread.
class CoefficientPolicy {
 public:
  // What making and writing may take of the time, beyond what the files would take anew.
  static constexpr double kMostMaking = 0.1;
  // One in so many files is decoded the other way, to learn how long that takes: at first and when
  // the other way was slower again and again.
  static constexpr uint32_t kFirstInterval = 16;
  static constexpr uint32_t kLastInterval = 1024;

  // Whether the next file's coefficients should be looked for; else it is decoded anew.
  bool ShouldRead();
  // How long a file took by its coefficients, found in the store, or decoded anew.
  void NoteKept(double seconds, uint64_t mcus) { kept_.Note(seconds, mcus); }
  void NoteAnew(double seconds, uint64_t mcus) { anew_.Note(seconds, mcus); }

  // Whether coefficients may be made now. `now` in seconds of a clock that goes on.
  bool MayMake(double now);
  // How long a file took of which they were made.
  void NoteMaking(double seconds, uint64_t mcus);

 private:
  // Seconds for an MCU of the file: the least of the first files, then a mean in which the newest
  // count most. A file that took much longer, since another program ran, counts as twice as long.
  struct Rate {
    static constexpr int kFirst = 4;
    static constexpr double kNewest = 0.25;
    double seconds = 0;
    int files = 0;

    bool known() const { return files >= kFirst; }
    void Note(double new_seconds, uint64_t mcus) {
      const double rate = new_seconds / static_cast<double>(mcus + 1);
      if (!known()) {
        seconds = files++ == 0 ? rate : std::min(seconds, rate);
      } else {
        seconds += kNewest * (std::min(rate, 2 * seconds) - seconds);
      }
    }
    double Of(uint64_t mcus) const { return seconds * static_cast<double>(mcus + 1); }
  };

  Rate kept_;
  Rate anew_;
  bool reads_ = true;  // the faster way, as far as is known
  uint32_t interval_ = kFirstInterval;
  uint32_t until_other_ = kFirstInterval;
  double began_ = -1;
  double making_seconds_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_CODECS_COEFFICIENT_POLICY_H_
