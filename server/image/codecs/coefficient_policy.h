#ifndef BULKHEAD_SERVER_IMAGE_CODECS_COEFFICIENT_POLICY_H_
#define BULKHEAD_SERVER_IMAGE_CODECS_COEFFICIENT_POLICY_H_

#include <algorithm>
#include <cstdint>

namespace bulkhead {

// Decides, by measured times, of which files kept coefficients are looked for, and of which files
// they are made. To look for them costs time where none are kept; where they lie on a slow disk, to
// read them may take longer than to decode the file anew; and to make and write them holds up the
// samples. Pure; used by one thread.
class CoefficientPolicy {
 public:
  // What making and writing may take of the time, beyond what the files would take anew.
  static constexpr double kMostMaking = 0.1;
  // What it may cost to go the slower way with a file now and then, to learn whether it still is.
  static constexpr double kMostTrials = 1.0 / 256;
  // So many files lie between two of these.
  static constexpr double kLeastInterval = 16;
  static constexpr double kMostInterval = 1 << 20;

  // Whether the next file's coefficients should be looked for; else it is decoded anew.
  bool ShouldLook();
  // Whether they are looked for, of most files.
  bool looks() const { return looks_; }
  // What came of it: how long a file took by its coefficients, with the time of the look; or how
  // long it took to find that there are none.
  void NoteKept(double seconds, uint64_t mcus);
  void NoteVain(double seconds, uint64_t mcus);
  // How long a file took that was decoded anew, without the time of a look.
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

  void NoteLook(bool found);
  // Sets looks_ and interval_ by what is known.
  void Decide();

  static constexpr double kMostLooks = 32;  // that found_share_ tells of

  Rate kept_;
  Rate vain_;
  Rate anew_;
  double looks_noted_ = 0;
  double found_share_ = 0;  // of the last looks
  bool looks_ = true;       // the faster way, as far as is known
  double interval_ = 1;     // both ways in turns, until they are known
  double until_other_ = 0;
  double began_ = -1;
  double making_seconds_ = 0;
};

}  // namespace bulkhead

#endif  // BULKHEAD_SERVER_IMAGE_CODECS_COEFFICIENT_POLICY_H_
