#pragma once

#include <cstdint>

namespace bulkhead {

// Decides, by measured times, of which files kept coefficients are looked for, and of which files
// they are made. To look for them costs time where none are kept; where they lie on a slow disk, to
// read them may take longer than to decode the file anew; and to make and write them holds up the
// samples. Pure; used by one thread.
class CoefficientPolicy {
 public:
  // What making and writing may take of the time, beyond what the files would take anew. With what
  // else it costs, as colder caches, that is a tenth.
  static constexpr double kMostMaking = 0.07;
  // And of the time that kept ones saved: so later epochs become faster, and all are made soon.
  static constexpr double kReinvested = 0.5;
  // Seconds: no more is saved up for later.
  static constexpr double kMostCredit = 0.1;
  // What it may cost to go the slower way with a file now and then, to learn whether it still is.
  static constexpr double kMostTrials = 1.0 / 256;
  // So many files lie between two of these.
  static constexpr double kLeastInterval = 16;
  static constexpr double kMostInterval = 1 << 20;

  // Whether the next file's coefficients should be looked for; else it is decoded anew.
  bool ShouldLook();
  // Whether they are looked for, of most files; of one of the next few at least.
  bool looks() const { return looks_; }
  bool LooksSoon() const { return looks_ || until_other_ <= kSoon; }
  // Whether they will be looked for, of each of the next few files.
  bool LooksOnly() const { return looks_ && until_other_ > kSoon; }
  // Whether files take longer by their coefficients than anew.
  bool is_slow() const {
    return kept_.known() && anew_.known() && kept_.per_mcu() > anew_.per_mcu();
  }
  // What came of it: how long a file took by its coefficients, with the time of the look; or how
  // long it took to find that there are none.
  void NoteKept(double seconds, uint64_t mcus);
  void NoteVain(double seconds, uint64_t mcus);
  // How long a file took that was decoded anew, without the time of a look.
  void NoteAnew(double seconds, uint64_t mcus) { anew_.Note(seconds, mcus); }

  // Whether coefficients may be made now. `now` in seconds of a clock that goes on; to be asked of
  // each file.
  bool MayMake(double now);
  // How long a file took of which they were made.
  void NoteMaking(double seconds, uint64_t mcus);

 private:
  // Seconds for an MCU of the files: the least of the first ones, then a mean of the last ones. A
  // file that took much longer, since another program ran, counts as twice as long.
  struct Rate {
    static constexpr int kFirst = 4;
    static constexpr double kNewest = 0.125;
    int files = 0;
    // Of a file in the mean. Not the mean of their ratio: small files take longer for an MCU.
    double seconds = 0;
    double mcus = 1;

    bool known() const { return files >= kFirst; }
    double per_mcu() const { return seconds / mcus; }
    void Note(double new_seconds, uint64_t new_mcus);
  };

  void NoteLook(bool found);
  void AddCredit(double seconds);
  // What a file is likely to take that is decoded anew.
  double TimeAnew(uint64_t mcus) const;
  // Sets looks_ and interval_ by what is known.
  void Decide();

  static constexpr double kMostLooks = 32;  // that found_share_ tells of
  static constexpr double kSoon = 4;        // files that are read ahead

  Rate kept_;
  Rate vain_;
  Rate anew_;
  double looks_noted_ = 0;
  double found_share_ = 0;  // of the last looks
  bool looks_ = true;       // the faster way, as far as is known
  double interval_ = 1;     // both ways in turns, until they are known
  double until_other_ = 0;
  double last_now_ = -1;
  double credit_ = 0;  // seconds that making may take; below zero after it took longer
};

}  // namespace bulkhead
